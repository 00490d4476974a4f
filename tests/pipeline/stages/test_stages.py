"""Each stage has a name of its own, and the function that it runs can be imported."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pkgutil import iter_modules

import pytest

from subgraft.embeddings import methods
from subgraft.pipeline import stages
from subgraft.pipeline.stages.registry import STAGES
from subgraft.training.stage import Stage


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.stage_name)
def test_what_a_stage_runs_takes_its_class(stage: type[Stage]) -> None:
    body = ast.parse(textwrap.dedent(inspect.getsource(stage.run)))
    homes = {
        imported.name: str(node.module)
        for node in ast.walk(body)
        if isinstance(node, ast.ImportFrom)
        for imported in node.names
    }
    (returned,) = (node.value for node in ast.walk(body) if isinstance(node, ast.Return))
    assert isinstance(returned, ast.Call) and isinstance(returned.func, ast.Name)
    function = getattr(importlib.import_module(homes[returned.func.id]), returned.func.id)
    first, *others = inspect.signature(function).parameters.values()
    assert str(first.annotation) in {each.__name__ for each in stage.__mro__}
    assert [parameter.name for parameter in others][-3:] == ["inputs", "out", "context"]


def test_stages_have_names_of_their_own() -> None:
    assert len({stage.stage_name for stage in STAGES}) == len(STAGES) == 41


def test_every_stage_is_in_the_table() -> None:
    modules = [
        importlib.import_module(f"{package.__name__}.{each.name}")
        for package in (stages, methods)
        for each in iter_modules(package.__path__)
    ]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    assert {each for each in classes if issubclass(each, Stage) and hasattr(each, "stage_name")} == set(STAGES)
