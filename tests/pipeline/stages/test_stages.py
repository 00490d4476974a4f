"""The table of stages names functions as text: each exists and takes the recipe that the table names."""

from __future__ import annotations

import inspect
from pkgutil import resolve_name
from typing import Any

import pytest

from subgraft.pipeline import stages
from subgraft.pipeline.stages.stage import Stage


@pytest.mark.parametrize("stage", stages.STAGES, ids=lambda stage: stage.name)
def test_a_stage_has_a_function_of_its_recipe(stage: Stage) -> None:
    run: Any = stage.run
    parameters = inspect.signature(resolve_name(f"{stages.__name__}.{run.path}")).parameters
    assert list(parameters) == ["recipe", "inputs", "out", "context"]
    assert parameters["recipe"].annotation.rpartition(".")[2] in {each.__name__ for each in stage.recipe.__mro__}


def test_stages_have_names_of_their_own() -> None:
    assert len({stage.name for stage in stages.STAGES}) == len(stages.STAGES) == 33
