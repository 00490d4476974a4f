"""Settings that a task of labels refuses, and the sides that it fills in."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from subgraft.config.experiment import Experiment
from subgraft.config.experiment.presets import with_preset

BASE: dict[str, Any] = {
    "name": "labels",
    "task": "classification",
    "languages": {"source": "en", "target": "en"},
    "corpora": {"text": {"folder": "text", "languages": ["en"]}, "labels": {"labelled": {"folder": "labels"}}},
    "upstream": {"corpus": "text", "objectives": [{"kind": "masked"}], "vocabulary": {"kind": "wordpiece"}},
    "downstream": {"corpus": "labels", "vocabulary": {"kind": "wordpiece"}},
    "model": {"family": "bert"},
    "systems": [{"name": "mean", "initialiser": "mean"}],
}


def experiment(**changes: Any) -> Experiment:
    return Experiment.model_validate(with_preset(BASE | changes))


@pytest.mark.parametrize(
    ("objectives", "family", "sides", "shared"),
    [
        ([{"kind": "masked"}], "bert", ("encoder", "decoder"), True),
        ([{"kind": "denoising"}], "mbart", ("encoder", "decoder"), True),
        ([{"kind": "causal"}], "gpt2", ("decoder",), None),
        ([{"kind": "causal"}], "llama", ("decoder",), None),
    ],
)
def test_a_model_with_a_head_has_one_vocabulary(
    objectives: list[dict[str, str]], family: str, sides: tuple[str, ...], shared: bool | None
) -> None:
    kinds = {"masked": "wordpiece", "causal": "byte-level-bpe", "denoising": "unigram"}
    kind = {"kind": kinds[objectives[0]["kind"]]}
    made = experiment(
        upstream={"corpus": "text", "objectives": objectives, "vocabulary": kind},
        downstream={"corpus": "labels", "vocabulary": kind},
        model={"family": family},
    )
    assert made.sides == sides and (shared is None or made.downstream.shared is shared)
    assert made.finetune.select == "score" and not made.finetune.label_smoothing


@pytest.mark.parametrize("task", ["regression", "span-extraction"])
def test_label_smoothing_is_of_classes(task: str) -> None:
    with pytest.raises(ValidationError, match=f"label_smoothing 0.1: {task} has no classes"):
        experiment(task=task, finetune={"label_smoothing": 0.1})
    assert experiment(task="tagging", finetune={"label_smoothing": 0.1}).finetune.label_smoothing == 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"finetune": {"select": "bleu"}}, "write score, or last"),
        ({"evaluation": {"calibration": True}}, "evaluation.calibration is for generated text"),
        ({"systems": [{"name": "ties", "initialiser": "mean", "tie_to_sources": True}]}, "tie_to_sources is not for"),
        ({"systems": [{"name": "rows", "initialiser": "mean", "train": "new-rows"}]}, "train: new-rows is not for"),
        ({"languages": {"source": "en", "target": "de"}}, "source and target must be the same"),
    ],
)
def test_what_labels_have_no_use_for_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        experiment(**changes)


def test_a_checkpoint_is_read_without_its_head_unless_something_trains_it() -> None:
    checkpoint = {"checkpoint": "google/electra-small-discriminator", "objectives": [{"kind": "masked"}]}
    assert experiment(upstream=checkpoint).starts_from_body
    more = checkpoint | {"corpus": "text"}
    assert experiment(upstream=more).starts_from_body
    assert not experiment(upstream=more | {"continue_pretraining": True}).starts_from_body
    assert not experiment(upstream=more, systems=[{"name": "ours", "initialiser": "patt"}]).starts_from_body
    assert not experiment().starts_from_body
