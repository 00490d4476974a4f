"""Presets are settings like a user's: every value of every file is taken by the type that it is for, as it stands."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from subgraft.config.experiment import Experiment
from subgraft.config.experiment.presets import PRESETS, preset, with_preset
from subgraft.config.models import SETTINGS_OF_FAMILY
from subgraft.config.yaml_tree import parse
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS
from subgraft.training.objectives.registry import task_objective

SETTINGS: dict[str, Any] = {
    "name": "one-of-each",
    "languages": {"source": "en", "target": "de"},
    "corpora": {"everyday": {"generated": "everyday"}, "law": {"generated": "law"}},
    "upstream": {"corpus": "everyday"},
    "downstream": {"corpus": "law", "text": {"target": ("more.txt",)}},
    # One of each that has a group of settings of its own.
    "systems": (
        {"name": "one", "initialiser": "token-distillation"},
        {"name": "two", "initialiser": "likelihood-matching"},
        {"name": "three", "initialiser": "vocadt"},
        {"name": "four", "initialiser": "attention-influence"},
        {"name": "six", "initialiser": "fitted"},
        {"name": "five", "initialiser": "mean", "embedding_warmup": "copied"},
    ),
    # Of systems that this task cannot have.
    "multitask_training": {},
}
# A decoder alone, and text in one language.
CONTINUED: dict[str, Any] = {
    "languages": {"source": "en", "target": "en"},
    "upstream": {"corpus": "everyday", "objectives": ({"kind": "causal"},)},
    "downstream": {"corpus": "law"},
    "model": {"family": "gpt2"},
    "systems": ({"name": "mean", "initialiser": "mean"},),
}
QUESTIONS: dict[str, Any] = {"squad": {"train": "a.json", "dev": "b.json", "test": "c.json"}}


def experiment(**settings: Any) -> dict[str, Any]:
    return Experiment.model_validate(SETTINGS | settings, strict=True).model_dump(mode="json")


def values(groups: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    if not isinstance(groups, dict):
        return {prefix: groups}
    return {inner: leaf for key, value in groups.items() for inner, leaf in values(value, f"{prefix}.{key}").items()}


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_arrives(name: str) -> None:
    """Of the model those that its family has settings for."""
    shape = preset(name)["model"]
    assert shape.keys() <= {field for settings in SETTINGS_OF_FAMILY.values() for field in settings.model_fields}
    fitting = {key: value for key, value in shape.items() if key in SETTINGS_OF_FAMILY["marian"].model_fields}
    wanted, filled = values({**preset(name), "model": fitting}), values(experiment(preset=name))
    assert {key: filled.get(key) for key in wanted} == wanted


def test_every_value_of_a_task_arrives_over_every_preset() -> None:
    for task, facts in TASKS.items():
        changes: dict[str, Any] = {"corpora": SETTINGS["corpora"] | {"law": QUESTIONS}} if facts.of_questions else {}
        if task_objective(task).continues or task in LABELLED_TASKS:
            changes = CONTINUED
        for name in PRESETS:
            filled = values(experiment(task=task, preset=name, **changes))
            assert {key: filled.get(key) for key in values(facts.defaults)} == values(facts.defaults)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_files_are_free_of_mistakes(name: str) -> None:
    assert not parse((files("subgraft.config.experiment.presets") / f"{name}.yaml").read_text(), name).mistakes


def test_a_setting_takes_precedence_over_the_preset() -> None:
    finetuning = experiment(preset="gpu", finetune={"epochs": 3})["finetune"]
    assert finetuning["epochs"] == 3 and finetuning["batch_size"] == preset("gpu")["finetune"]["batch_size"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_pretrained_language_model_is_finetuned_gently(name: str) -> None:
    """Tasks of language models have settings of their own for checkpoints; translators have the preset's."""
    checkpoint = {"checkpoint": "model", "objectives": ({"kind": "causal"},)}
    continued = with_preset({**CONTINUED, "preset": name, "task": "continuation", "upstream": checkpoint})
    wanted = TASKS["continuation"].checkpoint_defaults["finetune"]
    assert wanted["label_smoothing"] == 0.0 and wanted["embedding_learning_rate"] is None
    assert {key: continued["finetune"][key] for key in wanted} == dict(wanted)
    own = {**CONTINUED, "preset": name, "task": "continuation", "upstream": checkpoint, "finetune": {"warmup_steps": 7}}
    assert with_preset(own)["finetune"] == {**continued["finetune"], "warmup_steps": 7}
    for settings in ({**CONTINUED, "task": "continuation"}, {**SETTINGS, "upstream": {"checkpoint": "model"}}):
        assert "label_smoothing" not in with_preset({**settings, "preset": name})["finetune"]
