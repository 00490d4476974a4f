"""Sentences and blocks of documents are translated by systems of one experiment, and compared by document."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path

import pytest
import sacrebleu

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.model_card import SelectedModel
from subgraft.experiments.model_selection import Finetuned
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate_documents import ContextTranslator
from toys import english, german

LANGUAGES = Languages(source="en", target="de")
RECORDS = "{records: {folder: chapters, fields: {en: {}, de: {}}, document: document}}"
SENTENCES = "{name: sentences, vocabulary: upstream}"
BLOCKS = "{name: blocks, vocabulary: upstream, documents: 60}"
HAN = "{name: han, vocabulary: upstream, context: han, context_sentences: 2}"
RANDOM = "{name: random-blocks, pretraining: none, documents: 60}"
CONFIG = tiny(
    corpora=f"{{upstream: {RECORDS}, downstream: {RECORDS}}}",
    cleaning="{drop_held_out: false, deduplicate: false}",
    upstream="{corpus: upstream, languages: all, objectives: [{kind: denoising}], vocabulary: {size: 90, "
    "byte_fallback: false}}",
    downstream="{corpus: downstream, shared: true, vocabulary: {size: 80, byte_fallback: false}}",
    sides="[encoder, decoder]",
    model="{family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, "
    "max_positions: 160}",
    pretrain="{epochs: 1, batch_size: 500, precision: fp32, max_length: 100}",
    finetune="{epochs: 1, max_steps: 3, batch_size: 500, precision: fp32, dev_sentences: 4, max_length: 100}",
    systems=f"[{SENTENCES}, {BLOCKS}, {{name: blocks-mean, initialiser: mean, documents: 60}}, {RANDOM}]",
    evaluation="{beam: 1, documents: true, bootstrap_samples: 20, test_sentences: 5}",
)


def place(folder: Path) -> Path:
    """Documents of four and three sentences."""
    config = written(folder, CONFIG)
    (folder / "chapters").mkdir()
    for split, count, seed in (("train", 12, 1), ("dev", 2, 2), ("test", 3, 3)):
        rows = [
            {"document": f"{split}{number}", "en": english(size, 10 * seed + number), "de": german(size, seed + number)}
            for number in range(count)
            for size in (4 - number % 2,)
        ]
        (folder / "chapters" / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return config


def test_all_systems_are_scored_by_document(tmp_path: Path) -> None:
    pipeline, store = finish(place(tmp_path), f"systems=[{SENTENCES}, {BLOCKS}, {RANDOM}]")
    rows = [json.loads(line) for line in (tmp_path / "chapters" / "test.jsonl").read_text().splitlines()][:2]
    references = [" ".join(row["de"]) for row in rows]  # those that begin among the first five sentences
    for steps in pipeline.systems:
        out = store.path(steps.evaluate)
        evaluation = json.loads((out / "evaluation.json").read_text())
        assert (out / "references.txt").read_text().splitlines() == references
        hypotheses = json.loads((out / "documents.json").read_text())
        assert [" ".join(document) for document in hypotheses] == (out / "hypotheses.txt").read_text().splitlines()
        expected = sacrebleu.corpus_bleu([" ".join(document) for document in hypotheses], [references]).score
        scored = evaluation["documents"]
        assert scored["d-BLEU"]["value"] == pytest.approx(expected) == evaluation["scores"]["BLEU"]["value"]
        agree = [len(document) for document in hypotheses] == [4, 3]
        assert (scored["s-BLEU"] is not None) == agree == (scored["differing"] == 0)
        assert evaluation["sentences"] == 7 and scored["count"] == 2
        assert set(evaluation["scores"]) == {"BLEU", "chrF", "ROUGE-L"}, "those that are fast on long texts"
        if steps.system.name == "sentences":
            flat = [list(chain.from_iterable(texts)) for texts in (hypotheses, [row["de"] for row in rows])]
            assert scored["s-BLEU"]["value"] == pytest.approx(sacrebleu.corpus_bleu(flat[0], [flat[1]]).score)
    best = Finetuned.read(pipeline.systems[0], store)
    chosen = SelectedModel.of("chapters", pipeline, best.steps, best.weights, store)
    assert {name for name in chosen.tags() if name.startswith("test.")} == {"test.BLEU", "test.chrF", "test.ROUGE-L"}
    assert {"BLEU", "chrF", "ROUGE-L"} == set(re.findall(r"\| test +\| ([A-Za-z-]+) ", chosen.card()))
    report = (store.path(pipeline.report) / "report.md").read_text()
    assert "d-BLEU" in report and "BLEU of 2 documents" in report and "2 test sentences" not in report
    assert "TER counts" not in report and "METEOR" not in report
    assert not re.search(r"^- *$", report, re.MULTILINE), "a note without text"


def test_a_system_with_context_is_finetuned_by_sentence_first_and_has_a_translation_of_each(tmp_path: Path) -> None:
    pipeline, store = finish(place(tmp_path), f"systems=[{SENTENCES}, {HAN}]", "finetune.select=last")
    sentences, han = pipeline.systems
    assert han.by_sentence is not None
    assert han.by_sentence.fingerprint == sentences.finetune.fingerprint, "trained once for both"
    added = han.finetune.inputs["model"]
    assert added.inputs["model"].fingerprint == sentences.finetune.fingerprint
    rows = [json.loads(line) for line in (tmp_path / "chapters" / "test.jsonl").read_text().splitlines()][:2]
    evaluation, hypotheses = (
        json.loads((store.path(han.evaluate) / name).read_text()) for name in ("evaluation.json", "documents.json")
    )
    assert [len(document) for document in hypotheses] == [4, 3] and evaluation["documents"]["differing"] == 0
    references = [sentence for row in rows for sentence in row["de"]]
    expected = sacrebleu.corpus_bleu(list(chain.from_iterable(hypotheses)), [references]).score
    assert evaluation["documents"]["s-BLEU"]["value"] == pytest.approx(expected)
    model, initial = Bundle.load(store.path(han.finetune)), Bundle.load(store.path(added)).model.state_dict()
    trained = {name: tensor for name, tensor in model.model.state_dict().items() if ".context." in name}
    assert trained and any(not tensor.equal(initial[name]) for name, tensor in trained.items())
    translate = ContextTranslator(model, model.sequence_format(LANGUAGES), beam=1, max_length_ratio=2.5)
    assert hypotheses == translate.translate([row["en"] for row in rows])
    assert "han" in (store.path(pipeline.report) / "report.md").read_text()


REFUSED_OF_CONTEXT = {
    "systems=[{name: han, vocabulary: upstream, context: han, documents: 60}]": "context cannot be combined with",
    "systems=[{name: han, vocabulary: upstream, context: han, train: body}]": "it needs `train: all`",
    "evaluation.documents=false": "system han: context: blocks may have",
}


@pytest.mark.parametrize("change", REFUSED_OF_CONTEXT)
def test_settings_that_do_not_go_with_context_are_refused(tmp_path: Path, change: str) -> None:
    with pytest.raises(UserError) as caught:
        load(place(tmp_path), Experiment, [f"systems=[{HAN}]", change])
    assert REFUSED_OF_CONTEXT[change] in str(caught.value)


def test_a_model_that_cannot_read_context_is_refused_before_any_step(tmp_path: Path) -> None:
    narrow = load(place(tmp_path), Experiment, [f"systems=[{HAN}]", "model.embedding_width=8"])
    with pytest.raises(UserError, match="system han: context: a factorised_mbart model reads no sentences before"):
        Pipeline(narrow, tmp_path).report  # noqa: B018


def test_blocks_are_finetuned_with_the_objective_of_documents_and_others_are_not(tmp_path: Path) -> None:
    pipeline = Pipeline(load(place(tmp_path), Experiment), tmp_path)
    kinds = {steps.system.name: steps.finetune.stage.objective.kind for steps in pipeline.systems}
    assert kinds == {
        "sentences": "translation",
        "blocks": "document-translation",
        "blocks-mean": "document-translation",
        "random-blocks": "document-translation",
    }
    assert all(steps.evaluate.stage.objective == steps.finetune.stage.objective for steps in pipeline.systems)
    engines = {steps.system.name: steps.evaluate.stage.evaluation.engine for steps in pipeline.systems}
    assert engines["blocks"] == engines["random-blocks"] == "transformers"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("evaluation.documents=false", "write `evaluation: {documents: true}`"),
        ("finetune.max_train_examples=10", "leave out finetune.max_train_examples"),
        ("finetune.max_length=50", "blocks of 60 tokens are longer than finetune.max_length 50"),
        ("evaluation.metrics=[ROUGE-1]", "leave it out"),
        ("task=text-to-text", "documents are translated"),
    ],
)
def test_settings_that_do_not_go_with_documents_are_refused(tmp_path: Path, change: str, message: str) -> None:
    config = place(tmp_path)
    with pytest.raises(UserError, match=message):
        load(config, Experiment, [change])


def test_a_corpus_without_documents_and_a_model_without_ends_of_blocks_are_refused_before_any_step(
    tmp_path: Path,
) -> None:
    config = place(tmp_path)
    plain = load(config, Experiment, ["corpora.downstream={folder: downstream}"])
    with pytest.raises(UserError, match="does not mark them"):
        Pipeline(plain, tmp_path).report  # noqa: B018
    changes = ["model={family: m2m_100, max_positions: 160}", "upstream.objectives=[{kind: translation}]"]
    other = load(config, Experiment, [*changes, "upstream.languages=null"])
    with pytest.raises(UserError, match="system blocks: this m2m_100 model has no token that ends blocks"):
        Pipeline(other, tmp_path).report  # noqa: B018
