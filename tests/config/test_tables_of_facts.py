"""Initialisers and tasks: one record each, the same names everywhere, and nothing that goes by a name outside them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.presets import PRESETS, preset, with_preset
from subgraft.config.training import TrainingSettings
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS, TaskName, tasks_with
from subgraft.embeddings.methods.method import StartName
from subgraft.embeddings.methods.registry import METHODS, method_spec, names_with
from subgraft.evaluation.metrics.scores import METRICS
from subgraft.training.objectives.registry import task_objective


def test_names_of_methods_in_types_are_those_of_the_table() -> None:
    assert get_args(StartName) == tuple(names_with("mixes"))


def test_facts_agree_with_one_another() -> None:
    for facts in METHODS.values():
        assert facts.generator or not facts.trains
        assert facts.mixes or facts.trains or not facts.generator
        assert facts.static or not facts.unmapped
        assert (facts.learning is None) != (facts.rows is None), "a function makes the rows, or a step learns them"
        assert (facts.training is None) == (facts.learning is None and facts.trained is None)
    assert not method_spec(None).seeded and method_spec(None).learning is None


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.training])
def test_an_experiment_has_the_settings_of_every_training(name: str) -> None:
    method = METHODS[name]
    assert method.training is not None
    field = Comparison.model_fields[method.training.name]
    assert TrainingSettings in {field.annotation, *get_args(field.annotation)}
    for each in PRESETS:
        TrainingSettings.model_validate(preset(each)[method.training.name])


def test_tasks_are_those_that_a_configuration_can_name() -> None:
    assert get_args(TaskName) == tuple(TASKS)
    assert tasks_with("of_questions") == ["question-generation"] and tasks_with("two_languages") == ["translation"]
    assert all(set(facts.metrics) <= set(METRICS) for facts in TASKS.values())
    by_bits = {name for name, facts in TASKS.items() if not (facts.metrics or name in LABELLED_TASKS)}
    with_source = [name for name in TASKS if task_objective(name).source]
    assert with_source == ["class-conditional", "text-conditional", "feature-conditional"]
    assert by_bits == {"continuation", "chat", *with_source}


@pytest.mark.parametrize("task", get_args(TaskName))
def test_a_task_s_own_defaults_yield_to_settings(task: TaskName) -> None:
    filled = with_preset({"task": task, "cleaning": {"max_characters": 7}})
    assert filled["cleaning"] == {**TASKS[task].defaults.get("cleaning", {}), "max_characters": 7}
    assert filled.get("evaluation", {}) == TASKS[task].defaults.get("evaluation", {})


def test_nothing_compares_an_initialiser_or_a_task_with_a_name(repository: Path) -> None:
    compared = []
    for path in sorted((repository / "platform" / "subgraft").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            about = any(isinstance(each, ast.Attribute) and each.attr in ("initialiser", "task") for each in sides)
            constants = [c for each in sides for c in ast.walk(each) if isinstance(c, ast.Constant)]
            if about and any(isinstance(constant.value, str) for constant in constants):
                compared.append(f"{path.name}:{node.lineno}")
    assert not compared
