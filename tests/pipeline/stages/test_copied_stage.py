"""Copied text from a corpus of text to a finetuned model, in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from small_experiments import TINY, perform_step, written
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.synthetic import CopiedTextSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import Field
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.corpora import CopiedStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.context import Context, Json
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.stage import Stage
from toy_steps import ToyKind, record_of
from toys import german

LINES = 40
CHANGES = (
    "pretrain.epochs=4",
    "finetune.batch_unit=characters",
    "finetune.batch_size=600",
    "finetune.epochs=3",
    "finetune.select=last",
)


def write_text(recipe: Stage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """As the stage `text` leaves its corpus."""
    del recipe, inputs, context
    (out / "train.target").write_text("".join(f"{line}\n" for line in german(LINES, 9)))
    sizes = {"train": LINES}
    fields = (Field("target", language="de"),)
    counted = {"train": {"target": LINES}}
    Corpus(out, fields, False, sizes, {"train": {}}, {"kind": "text"}, aligned=False, field_sizes=counted).save()
    return {}


TEXT = Step(ToyKind("text-of-test", 1, write_text).of(Stage()), "text")


def copied(drop: float = 0.3) -> Step:
    recipe = CopiedStage(languages=Languages(source="en", target="de"), copied=CopiedTextSettings(drop=drop), seed=1)
    return Step(recipe, "copied text", {"text": TEXT})


def make(home: Path, *steps: Step) -> Store:
    for step in in_order(steps):
        perform_step(step, home)
    return Store(home)


def with_text(step: Step[FinetuneStage], share: float, **training: object) -> Step[FinetuneStage]:
    """A finetuning on its pairs and copied text."""
    settings = step.stage.training.model_copy(update={"monolingual_fraction": share, "max_steps": None, **training})
    recipe = step.stage.model_copy(update={"training": settings, "text_objective": TranslationSettings()})
    return replace(step, stage=recipe, inputs={**step.inputs, "synthetic": copied()})


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("copied"), TINY)


@pytest.fixture(scope="module")
def pipeline(config: Path) -> Pipeline:
    return Pipeline(load(config, Experiment, CHANGES), config.parent)


def test_the_text_is_the_target_of_copies_with_words_left_out(tmp_path: Path) -> None:
    store = make(tmp_path, copied())
    corpus = Corpus.open(store.path(copied()))
    pairs = list(corpus.pairs("train"))
    assert [target for _, target in pairs] == german(LINES, 9) and corpus.splits == ("train",)
    assert all(set(source.split()) <= set(target.split()) for source, target in pairs)
    assert any(source != target for source, target in pairs)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_finetuning_takes_the_steps_that_were_planned_and_learns_the_text(
    config: Path, pipeline: Pipeline, share: float
) -> None:
    """Judged by the task's dev pairs; at 1.0 the pairs themselves are not read."""
    plain = pipeline.systems[1].finetune
    step, home = with_text(plain, share), config.parent / "home"
    store = make(home, *step.inputs.values())
    planned = workload(store, step).updates
    make(home, step, plain)
    record = record_of(store, step)
    assert planned == record.summary["steps"]
    ours, theirs = (json.loads((store.path(each) / "curve.json").read_text()) for each in (step, plain))
    assert ours[0]["values"] == theirs[0]["values"] and ours[-1]["epoch"] == 3
    weights, others = (load_file(store.path(each) / "model.safetensors") for each in (step, plain))
    assert any(not torch.equal(tensor, others[name]) for name, tensor in weights.items())
