"""An XLNet all the way: pretrained on documents, fitted with a vocabulary, finetuned on labels, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers

from labelled import write_files
from permuted import documents
from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import count_parameters

SHAPE = "{family: xlnet, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128}"
PERMUTATION = "{kind: permutation, input: segment-pair, memory_tokens: 8, next_sentence: true}"


def xlnet_on_labels(place: Path, objectives: str = PERMUTATION, **sections: str) -> Path:
    documents(place / "documents", 12, 13)
    source = write_files("classification", place / "labelled", {"train": 40, "dev": 8, "test": 8})
    source["labelled"]["folder"] = "labelled"
    upstream = "{records: {folder: documents, document: document, fields: {text: {language: en}}}}"
    inputs = {
        "task": "classification",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {upstream}, downstream: {json.dumps(source)}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": f"{{corpus: upstream, objectives: [{objectives}], "
        "vocabulary: {kind: unigram, size: 90, byte_fallback: false}}",
        "downstream": "{corpus: downstream, vocabulary: {kind: unigram, size: 85, byte_fallback: false}}",
        "model": SHAPE,
        "pretrain": "{epochs: 1, max_steps: 4, batch_size: 200, max_length: 48, precision: fp32, label_smoothing: 0}",
        "generator_training": "{max_steps: 2, batch_size: 200, max_length: 48, precision: fp32}",
        "finetune": "{epochs: 2, max_steps: 6, batch_size: 300, max_length: 64, precision: fp32, dev_sentences: 8, "
        "learning_rate: 0.01, layer_decay: 0.8}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 8, bootstrap_samples: 20}",
        "systems": "[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean}, "
        "{name: patt, initialiser: patt, kd_weight: 0.5}]",
    }
    return written(place, tiny(**inputs | sections))


def test_it_is_pretrained_fitted_and_finetuned(tmp_path: Path) -> None:
    pipeline, store = finish(xlnet_on_labels(tmp_path))
    pretrained = Bundle.load(store.path(pipeline.models.pretrained))
    assert type(pretrained.model).__name__ == "XLNetLMHeadModel"
    texts = [json.loads(line)["text"] for line in (tmp_path / "labelled" / "test.jsonl").read_text().splitlines()]
    for steps in pipeline.systems:
        model = Bundle.load(store.path(steps.finetune)).model
        assert type(model).__name__ == "XLNetForSequenceClassification"
        assert count_parameters(model.config.to_dict()).total == model.num_parameters()
        exported = tmp_path / "exported" / steps.system.name
        exported.mkdir(parents=True)
        export_transformers(store.path(steps.finetune), exported)
        answers = transformers.pipeline("text-classification", model=str(exported), device="cpu")(texts)
        said = (store.path(steps.evaluate) / "hypotheses.txt").read_text().splitlines()
        assert [each["label"] for each in answers] == said
    assert "accuracy" in (store.path(pipeline.report) / "report.md").read_text()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("task=text-to-text", "generates text, which a model of the family xlnet cannot"),
        ("pretrain.batch_size_schedule=[{step: 2, batch_size: 300}]", "memory_tokens need batches of one size"),
        ("model.family=bert", "the objective permutation needs model.family xlnet, not bert"),
        ("upstream.vocabulary.kind=wordpiece", "needs upstream.vocabulary.kind unigram or bpe"),
        ("upstream.objectives.0.input=sentences", "write input: doc-sentences"),
        ("upstream.objectives.0.block_tokens=400", "block_tokens 400 is beyond"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(section: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load(xlnet_on_labels(tmp_path), Experiment, [section])


def test_denoising_on_its_architecture_is_an_objective_too(tmp_path: Path) -> None:
    """DAE + Transformer-XL of section 3.6."""
    systems = "[{name: old, vocabulary: upstream}]"
    pipeline, store = finish(xlnet_on_labels(tmp_path, "{kind: masked}", systems=systems))
    assert "mask" in Bundle.load(store.path(pipeline.systems[0].finetune)).encoder.special
