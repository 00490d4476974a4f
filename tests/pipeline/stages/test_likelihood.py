"""From a small experiment's corpora to its report's sections on spelling and rare tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from small_experiments import TINY, finish, written
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.evaluation.metrics.token_classes import Likelihood
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.artifacts import SPELLED, STATISTICS
from subgraft.pipeline.measurements.likelihood import LIKELIHOOD_FILE
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.translation import reference_nats


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    """Both systems; the task's German has digits and brackets that no upstream text has."""
    place = tmp_path_factory.mktemp("spelled")
    config = written(place, TINY)
    for path in (place / "downstream").glob("*.de"):
        lines = path.read_text().splitlines()
        path.write_text("".join(f"{line} (7)\n" if i % 2 else f"{line}\n" for i, line in enumerate(lines)))
    return finish(config, "pretrain.epochs=1", "downstream.vocabulary.size=85", "evaluation.test_sentences=4")


def test_likelihood_is_the_models_own(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    pairs = list(Corpus.open(store.path(pipeline.inputs.downstream_corpus)).pairs("test"))
    for steps in pipeline.systems:
        measured = Likelihood.from_json(
            json.loads((store.path(steps.measured["likelihood"]) / LIKELIHOOD_FILE).read_text())
        )
        bundle = Bundle.load(store.path(steps.finetune))
        nats = sum(float(np.sum(each)) for _, each in reference_nats(bundle, pairs, pipeline.experiment.languages))
        expected = bits_per_character(nats, count_characters(target for _, target in pairs))
        assert measured.bits_per_character == pytest.approx(expected, rel=1e-5)
        assert measured.sentences == 4 and measured.left_out == 0
    plain, mean = (
        json.loads((store.path(steps.measured["likelihood"]) / LIKELIHOOD_FILE).read_text())
        for steps in pipeline.systems
    )
    shapes = [
        {name: (each["units"], each["characters"]) for name, each in measured["stretches"].items()}
        for measured in (plain, mean)
    ]
    assert shapes[0] == shapes[1], "stretches are the same whatever the system's vocabulary"
    assert "not spelled" in shapes[0]
    assert set(plain["tokens"]) <= {"seen", "not spelled"} and set(mean["tokens"]) > {"seen"}


def test_the_gap_says_what_each_vocabulary_can_spell(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    gap = json.loads((store.path(pipeline.evaluation.gap) / "gap.json").read_text(encoding="utf-8"))
    by_corpus = {(each["side"], each["split"], each["role"]): each for each in gap["spelling"]}
    assert set(by_corpus) == {
        *(("encoder", split, "upstream") for split in ("train", "test")),
        *(("decoder", split, role) for split in ("train", "test") for role in ("upstream", "downstream")),
    }
    upstream = load_tokenizers(store.path(pipeline.models.pretrained))["decoder"]
    lines = list(Corpus.open(store.path(pipeline.inputs.downstream_corpus)).lines("test", "target"))
    tested = by_corpus["decoder", "test", "upstream"]
    assert tested["unknown"] == sum(upstream.encode(line).count(upstream.special["unk"]) for line in lines) > 0
    assert tested["with_unknown"] == 2
    assert tested["scores"]["BLEU"]["value"] < by_corpus["decoder", "test", "downstream"]["scores"]["BLEU"]["value"]
    assert by_corpus["encoder", "test", "upstream"]["unknown"] == 0
    assert "scores" not in by_corpus["decoder", "train", "upstream"]
    assert set("(7)") == set(gap["text"]["upstream_unknown_characters"])


def test_the_report_separates_spelling_from_gain(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    masks = [load_file(store.path(steps.evaluate) / STATISTICS)[SPELLED].tolist() for steps in pipeline.systems]
    downstream = Tokenizer.load(store.path(pipeline.vocabularies.downstream["decoder"]))
    assert "unk" in downstream.special
    assert masks[0] == [True, False, True, False]
    markdown = (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8")
    assert "cannot be written in the upstream vocabulary" in markdown
    assert "Scores on the 2 of 4 test sentences that every system can spell" in markdown
    assert "## Rare tokens" in markdown and "What each vocabulary can spell" in markdown
