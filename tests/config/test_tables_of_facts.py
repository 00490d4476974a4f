"""Initialisers and tasks: one record each, the same names everywhere, and nothing that goes by a name outside them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from subgraft.config.experiment.presets import with_preset
from subgraft.config.initialiser_registry import (
    INITIALISERS,
    LEARNINGS,
    GeneratorName,
    LearningName,
    StartName,
    TrainedGenerator,
    initialiser_info,
    learning_of,
    names_with,
)
from subgraft.config.tasks import TASKS, TaskName, tasks_with
from subgraft.embeddings.initialisers.registry import METHODS
from subgraft.evaluation.metrics.scores import METRICS


def test_what_makes_rows_and_what_is_known_of_it_have_the_same_names() -> None:
    assert tuple(INITIALISERS) == tuple(METHODS)
    assert get_args(StartName) == tuple(names_with("mixes"))
    assert get_args(GeneratorName) == tuple(names_with("generator"))
    assert get_args(TrainedGenerator) == tuple(names_with("trained"))
    assert get_args(LearningName) == tuple(LEARNINGS) == tuple(names_with("learning"))


def test_facts_agree_with_one_another() -> None:
    for name, facts in INITIALISERS.items():
        assert facts.trained in (None, facts.generator)
        assert facts.mixes or facts.generator in (None, facts.trained)
        assert facts.static or not facts.unmapped
        assert facts.learning in (None, name)
    assert (
        initialiser_info(None) == initialiser_info("reconstruction") and learning_of(None) is learning_of("avg") is None
    )


def test_tasks_are_those_that_a_configuration_can_name() -> None:
    assert get_args(TaskName) == tuple(TASKS)
    assert tasks_with("of_questions") == ["question-generation"] and tasks_with("two_languages") == ["translation"]
    assert all(set(facts.metrics) <= set(METRICS) for facts in TASKS.values())
    by_bits = {name for name, facts in TASKS.items() if not (facts.metrics or facts.finetuned_on.understands)}
    assert by_bits == {"continuation", "chat", *tasks_with("source")}
    assert tasks_with("source") == ["class-conditional", "text-conditional", "feature-conditional"]


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
