"""Text for a text and for features all the way: pretrained, given a source, finetuned, measured and reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from small_experiments import finish, tiny
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.models import MarianSettings
from subgraft.config.runtime import Runtime
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.reporting.table import MainTable
from subgraft.experiments.pipeline import Pipeline
from subgraft.interfaces.api.model import features_in, generate
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import SourceName
from subgraft.modeling.conditioning.sources import Sourced
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.modeling.families import family_named
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.conditioned import source_read
from toys import build_mbart, english, german, german_tokenizer, gpt2, multilingual_tokenizer

GPT2 = "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}"
LLAMA = "{family: llama, d_model: 16, layers: 1, attention_heads: 2, key_value_heads: 1, ffn_dim: 16}"
READING = """\
encoder: {layers: 1, attention_heads: 2, dropout: 0.0}
vocabulary: {size: 60, byte_fallback: false}
max_length: 12
decoder: {d_model: 8, layers: 1, attention_heads: 2, dropout: 0.0}
"""
SYSTEMS = """\
- {name: unconditional, vocabulary: upstream}
- {name: pseudo-self, vocabulary: upstream, conditioning: pseudo-self}
- {name: pseudo-self-own, initialiser: mean, conditioning: pseudo-self}
"""
LONGER = "{epochs: 40, max_steps: 80, batch_size: 800, learning_rate: 0.02, precision: fp32, dev_sentences: 6}"
SMALL_MARIAN = MarianSettings(d_model=8, encoder_layers=1, decoder_layers=1, attention_heads=2, ffn_dim=8)
READ = ("dark night:", "the sun:")


def written_for(place: Path, source: SourceName, **sections: str) -> Path:
    """The configuration in a file, next to it plain text, and text whose first word its source determines."""
    corpora = {
        "text": "{columns: {folder: downstream, source: story, target: reply}}",
        "features": "{features: {folder: downstream}}",
    }
    tasks = {"text": "text-conditional", "features": "feature-conditional"}
    inputs = {
        "task": tasks[source],
        "languages": "{source: de, target: de}",
        "corpora": f"{{upstream: {{folder: upstream}}, downstream: {corpora[source]}}}",
        "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        "model": GPT2,
        "conditioning": READING,
        "pretrain": "{epochs: 4, batch_size: 500, precision: fp32, dev_sentences: 4}",
        "systems": SYSTEMS,
    }
    (place / "upstream").mkdir(parents=True)
    (place / "downstream").mkdir()
    for split, size in (("train", 120), ("dev", 6), ("test", 6)):
        (place / "upstream" / f"{split}.de").write_text("".join(f"{line}\n" for line in german(size, 1)))
        kinds = [number % 2 for number in range(size)]
        message = [f"{('nicht', 'gut')[kind]} {line}" for kind, line in zip(kinds, german(size, 2), strict=True)]
        (WRITERS[source])(place / "downstream", split, kinds, message)
    (place / "config.yaml").write_text(tiny(**inputs | sections))
    return place / "config.yaml"


def _texts(folder: Path, split: str, kinds: Sequence[int], message: Sequence[str]) -> None:
    stories = (f"{READ[kind]} {line}" for kind, line in zip(kinds, english(len(kinds), 3), strict=True))
    records = [{"story": story, "reply": text} for story, text in zip(stories, message, strict=True)]
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def _features(folder: Path, split: str, kinds: Sequence[int], message: Sequence[str]) -> None:
    """One row of a kind or the other, or two."""
    chooser = np.random.default_rng(len(kinds))
    rows = np.array([1 + place % 3 % 2 for place in range(len(kinds))])
    means = np.repeat(np.array(kinds) * 2.0 - 1, rows)[:, None]
    features = (means + chooser.normal(0, 0.1, (rows.sum(), 3))).astype(np.float32)
    save_file({"features": features, "rows": rows}, folder / f"{split}.safetensors")
    (folder / f"{split}.de").write_text("".join(f"{line}\n" for line in message))


WRITERS = {"text": _texts, "features": _features}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["text", "features"])
def test_the_output_depends_on_what_is_read(source: SourceName, tmp_path: Path) -> None:
    pipeline, store = finish(written_for(tmp_path, source, finetune=LONGER))
    corpus = Corpus.open(store.path(pipeline.inputs.downstream_corpus))
    inputs = Sourced.of(corpus, "test", source).first(3)
    for steps in pipeline.systems:
        result = json.loads((store.path(steps.evaluate) / "evaluation.json").read_text())
        bundle, characters = Bundle.load(store.path(steps.finetune)), sum(map(len, inputs.texts))
        assert result["bits_per_character"] == pytest.approx(_by_hand(bundle, inputs) / log(2) / characters, abs=1e-4)
        others = result[f"bits_per_character_of_another_{source}"]
        if steps.system.conditioning is None:
            assert others == result["bits_per_character"]
        else:
            assert others > result["bits_per_character"] + 0.005
        written = (store.path(steps.evaluate) / "continuations.txt").read_text().splitlines()
        assert len(written) == 3 and result["exact_match"] == np.mean(np.array(written) == np.array(list(inputs.texts)))
        assert set(result["scores"]) >= {
            "BLEU",
            "ROUGE-1",
            "ROUGE-2",
            "ROUGE-L",
            "CIDEr",
            "prompt ranking",
            "distinct-2",
        }
        assert result["scores"]["BLEU"]["signature"].startswith("nrefs:1|")
    report = store.path(pipeline.report)
    assert [row[0] for row in MainTable.read(report).rows] == ["unconditional", "pseudo-self", "pseudo-self-own"]
    shown = (report / "report.md").read_text(encoding="utf-8")
    assert ("dark night" if source == "text" else "features of example 0: 1 rows of 3") in shown


def _by_hand(bundle: Bundle, arguments: Sourced) -> float:
    """Nats of lines between ends, from logits of one line at a time."""
    end, total, sources = bundle.decoder.special["eos"], 0.0, source_read(bundle).encode(arguments.sources)
    for line, source in zip(arguments.texts, sources, strict=True):
        ids = torch.tensor([[end, *bundle.decoder.encode(line), end]])
        read = torch.from_numpy(source)[None]
        inputs = {"input_ids": read, "decoder_input_ids": ids} if len(source) else {"input_ids": ids}
        with torch.no_grad():
            message = bundle.model(**inputs).logits.double().log_softmax(-1)
        total -= float(message[0, :-1].gather(1, ids[0, 1:, None]).sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize("source", ["text", "features"])
@pytest.mark.parametrize(("shape", "variants"), [(GPT2, get_args(VariantName)), (LLAMA, ("pseudo-self", "prepend"))])
def test_every_variant_goes_all_the_way(
    source: SourceName, shape: str, variants: tuple[str, ...], tmp_path: Path
) -> None:
    systems = "".join(f"- {{name: {name}, initialiser: mean, conditioning: {name}}}\n" for name in variants)
    evaluation = "{speed_sentences: 2, speed_repeats: 1, beam: 2, test_sentences: 3, bootstrap_samples: 20}"
    config = written_for(tmp_path, source, model=shape, systems=systems, evaluation=evaluation)
    pipeline, store = finish(config)
    again = Pipeline(load(config, Experiment, ["seeds=[2]"]), tmp_path)
    result = {each.step.name: each for each in estimates(store, make_plan(store, [again.report]), Runtime())}
    for steps in again.systems:
        finished = Bundle.load(store.path(pipeline.system(steps.system, 1).finetune))
        assert result[steps.finetune.name].parameters.total == finished.model.num_parameters()
        if source == "text":
            own = steps.system.conditioning == "prepend"
            assert (finished.encoder.fingerprint == finished.decoder.fingerprint) is own
            text = generate(store.path(pipeline.system(steps.system, 1).finetune), ["a night"], beam=1, max_tokens=5)
            assert len(text) == 1
        if steps.system.conditioning == "prepend" and shape == GPT2:
            assert finished.max_positions == 256 - (12 if source == "text" else 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpora": "{upstream: {folder: upstream}, downstream: {folder: upstream}}"}, "0 fields of kind tensor"),
        ({"task": "continuation", "systems": "[{name: a, vocabulary: upstream}]"}, None),
        ({"conditioning": "{max_length: 0}"}, "greater than or equal to 1"),
        ({"evaluation": "{engine: ctranslate2}"}, "does not write for a source"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, str], message: str | None, tmp_path: Path) -> None:
    config = written_for(tmp_path, "features", **changes)
    if message is None:  # features that nobody reads are not mistake
        assert Pipeline(load(config, Experiment), tmp_path).report
        return
    with pytest.raises(UserError) as raised:
        _ = Pipeline(load(config, Experiment), tmp_path).report
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones((5, 3)), "features of 5 examples, but 6 texts"),
        (np.ones((6, 4)), "rows of 4 numbers, but rows of the train split have 3"),
        (np.ones((6, 3), dtype=np.int32), "of type I32"),
        (np.array([[1.0, 1.0, 1.0]] * 4 + [[1.0, np.nan, 1.0]] * 2), "features of example 4 (counted from 0) contain"),
    ],
)
def test_features_that_cannot_be_read_are_reported_before_anything_runs(
    features: np.ndarray, message: str, tmp_path: Path
) -> None:
    config = written_for(tmp_path, "features")
    save_file({"features": features}, path := tmp_path / "downstream" / "test.safetensors")
    with pytest.raises(UserError) as raised:
        _ = Pipeline(load(config, Experiment), tmp_path).report
    assert message in str(raised.value) and raised.value.where == str(path)


def test_other_features_are_another_corpus(tmp_path: Path) -> None:
    config = written_for(tmp_path, "features")
    before = Pipeline(load(config, Experiment), tmp_path).inputs.downstream_corpus.fingerprint
    path = tmp_path / "downstream" / "dev.safetensors"
    save_file({"features": np.ones((6, 3))}, path)
    assert Pipeline(load(config, Experiment), tmp_path).inputs.downstream_corpus.fingerprint != before


def test_a_source_that_leaves_no_room_for_a_target_is_reported(tmp_path: Path) -> None:
    systems = "[{name: ours, vocabulary: upstream, conditioning: prepend}]"
    with pytest.raises(UserError, match="the source takes all 256 positions"):
        finish(written_for(tmp_path, "text", systems=systems), "conditioning.max_length=300")


SHARED = READING.replace("vocabulary: {size: 60, byte_fallback: false}", "shared_vocabulary: true")
SHORT = "{epochs: 1, batch_size: 800, label_smoothing: 0.0, precision: fp32, dev_sentences: 6}"
COPYING = "[{name: ours, initialiser: mean, conditioning: pseudo-self, copying: pointer-generator}]"


def test_what_is_copied_is_of_the_vocabulary_that_is_written_in(tmp_path: Path) -> None:
    ours = COPYING[:-1].replace("pointer-generator", "bottom-up")
    systems = f"{ours}, {{name: plain, initialiser: mean, conditioning: pseudo-self}}]"
    reading = f"{SHARED}copy_threshold: 0.0\n"  # all is selected: the output has the likelihood that is measured
    config = written_for(tmp_path, "text", systems=systems, conditioning=reading, finetune=SHORT)
    pipeline, store = finish(config)
    corpus = Corpus.open(store.path(pipeline.inputs.downstream_corpus))
    inputs = Sourced.of(corpus, "test", "text").first(3)
    for steps in pipeline.systems:
        bundle = Bundle.load(store.path(steps.finetune))
        result = json.loads((store.path(steps.evaluate) / "evaluation.json").read_text())
        expected = _by_hand(bundle, inputs) / log(2) / sum(map(len, inputs.texts))
        assert result["bits_per_character"] == pytest.approx(expected, abs=1e-4)
        assert result["parameters"] == bundle.model.num_parameters()
        assert (bundle.model.copying is not None) == (steps.system.name == "ours")
        assert source_read(bundle).encode(["gut"])[0].tolist()[:-1] == bundle.decoder.encode("gut")
        begun = steps.finetune.inputs["model"]
        assert set(begun.inputs) == {"model", "corpus"}
        record = store.find(begun)
        assert record is not None and record.summary["source"]["encoder"]["layers"] == 1
    again = Pipeline(load(config, Experiment, ["seeds=[2]"]), tmp_path)
    foreseen = {each.step.name: each for each in estimates(store, make_plan(store, [again.report]), Runtime())}
    for steps in again.systems:
        finished = Bundle.load(store.path(pipeline.system(steps.system, 1).finetune))
        assert foreseen[steps.finetune.name].parameters.total == finished.model.num_parameters()


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ("text", {"conditioning": READING}, "needs a source in the decoder's vocabulary"),
        ("text", {"systems": COPYING.replace("pseudo-self", "prepend")}, "prepend has no encoder"),
        ("text", {"systems": COPYING.replace("conditioning: pseudo-self, ", "")}, "reads: this system reads none"),
        ("text", {"finetune": "{epochs: 1, label_smoothing: 0.1}"}, "write finetune.label_smoothing: 0"),
        ("text", {"conditioning": f"{SHARED}vocabulary: {{size: 60}}"}, "it or shared_vocabulary"),
        ("features", {"conditioning": READING}, "copies tokens of the text"),
        ("features", {"conditioning": SHARED}, "is for a source text, and feature-conditional has none"),
    ],
)
def test_what_cannot_be_copied_is_reported_before_anything_runs(
    source: SourceName, changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    config = written_for(tmp_path, source, **{"systems": COPYING, "conditioning": SHARED} | changes)
    with pytest.raises(UserError) as raised:
        load(config, Experiment)
    assert message in str(raised.value)


def test_a_pretrained_encoder_reads_in_its_own_vocabulary(tmp_path: Path) -> None:
    systems = "[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]"
    reading = f"{READING}pretrained_encoder: reader\n"
    config = written_for(tmp_path, "text", systems=systems, conditioning=reading)
    tokenizer = german_tokenizer()
    Bundle(gpt2(), tokenizer, tokenizer).save(tmp_path / "reader")
    with pytest.raises(UserError, match="has no encoder that can be taken out of it") as raised:
        _ = Pipeline(load(config, Experiment), tmp_path).report
    assert raised.value.where == "conditioning.pretrained_encoder: reader"
    shutil.rmtree(tmp_path / "reader")
    reader = family_named("marian").build(SMALL_MARIAN, tokenizer, tokenizer, seed=5)
    Bundle(reader, tokenizer, tokenizer).save(tmp_path / "reader")
    pipeline, store = finish(config)
    finetune = pipeline.systems[0].finetune
    begun, finished = (Bundle.load(store.path(step)) for step in (finetune.inputs["model"], finetune))
    for name, weights in reader.get_encoder().state_dict().items():
        assert torch.equal(begun.model.state_dict()[f"source.encoder.{name}"], weights)
    table = "source.encoder.embed_tokens.weight"
    assert not torch.equal(finished.model.state_dict()[table], begun.model.state_dict()[table])
    assert finished.encoder.fingerprint == tokenizer.fingerprint != finished.decoder.fingerprint
    moved = config.read_text().replace("pretrained_encoder: reader", "pretrained_encoder: elsewhere")
    (tmp_path / "reader").rename(tmp_path / "elsewhere")
    config.write_text(moved)
    again = Pipeline(load(config, Experiment), tmp_path)
    assert again.systems[0].finetune.fingerprint == finetune.fingerprint


def test_a_pretrained_encoder_gets_the_language_that_it_reads(tmp_path: Path) -> None:
    systems = "[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]"
    reading = f"{READING}pretrained_encoder: reader\n"
    config = written_for(tmp_path, "text", systems=systems, conditioning=reading)
    shape = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "attention_heads": 2, "ffn_dim": 8}
    other = learn(english(), kind="unigram", size=60, mask=True, languages=("en_XX", "fr_XX"))
    Bundle(build_mbart(other, seed=5, **shape), other, other).save(tmp_path / "reader")
    with pytest.raises(UserError, match="no language code for 'de'") as raised:
        _ = Pipeline(load(config, Experiment), tmp_path).report
    assert raised.value.where == "conditioning.pretrained_encoder: reader"
    shutil.rmtree(tmp_path / "reader")
    tokenizer = multilingual_tokenizer()
    Bundle(build_mbart(tokenizer, seed=5, **shape), tokenizer, tokenizer).save(tmp_path / "reader")
    pipeline, store = finish(config)
    bundle = Bundle.load(store.path(pipeline.systems[0].finetune))
    rows = source_read(bundle).encode(["ein Text"])[0].tolist()
    assert rows[-2:] == [tokenizer.special["eos"], tokenizer.languages["de_DE"]]


def test_a_store_says_which_source_a_model_reads(tmp_path: Path) -> None:
    systems = "[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]"
    pipeline, store = finish(written_for(tmp_path, "features", systems=systems))
    record = Store(tmp_path / "home").find(pipeline.systems[0].finetune.inputs["model"])
    assert record is not None and record.summary["source"] == {"kind": "features", "features": 3, "rows": None}
    model = store.path(pipeline.systems[0].finetune)
    with pytest.raises(UserError, match="reads features, not text"):
        generate(model, ["a text"])
    assert len(generate(model, features_in(tmp_path / "downstream" / "test.safetensors"), max_tokens=5)) == 6
