"""Each stage has a name of its own, and the function that it runs can be imported."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pkgutil import walk_packages

import pytest

from subgraft import contrib
from subgraft.embeddings import methods
from subgraft.pipeline import measurements, stages
from subgraft.pipeline.stages.registry import STAGES
from subgraft.training.stage import Stage


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.stage_name)
def test_what_a_stage_runs_takes_its_class(stage: type[Stage]) -> None:
    body = ast.parse(textwrap.dedent(inspect.getsource(stage.run)))
    imported = {
        each.name: getattr(importlib.import_module(str(node.module)), each.name)
        for node in ast.walk(body)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    # A stage that computes itself imports what can be imported.
    (returned,) = (node.value for node in ast.walk(body) if isinstance(node, ast.Return))
    if isinstance(returned, ast.Call) and isinstance(returned.func, ast.Name):
        signature = inspect.signature(imported[returned.func.id])
        first, *others = signature.parameters.values()
        assert str(first.annotation) in {each.__name__ for each in stage.__mro__}
        passed = [argument.id for argument in returned.args if isinstance(argument, ast.Name)]
        assert [each.name for each in others][-len(passed) + 1 :] == passed[1:]


def test_stages_have_names_of_their_own() -> None:
    assert len({stage.stage_name for stage in STAGES}) == len(STAGES) == 43


def test_every_stage_is_in_the_table() -> None:
    modules = [
        importlib.import_module(each.name)
        for package in (stages, methods, measurements, contrib)
        for each in walk_packages(package.__path__, f"{package.__name__}.")
    ]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    assert {each for each in classes if issubclass(each, Stage) and hasattr(each, "stage_name")} == set(STAGES)
