"""Each stage has a name of its own and a function that takes a recipe."""

from __future__ import annotations

import inspect

import pytest

from subgraft.pipeline import stages
from subgraft.pipeline.stages.stage import Stage


@pytest.mark.parametrize("stage", stages.STAGES, ids=lambda stage: stage.name)
def test_a_stage_runs_a_function_of_its_recipe(stage: Stage) -> None:
    parameters = inspect.signature(stage.run).parameters
    assert list(parameters) == ["recipe", "inputs", "out", "context"]
    assert parameters["recipe"].annotation in {each.__name__ for each in stage.recipe.__mro__}


def test_stages_have_names_of_their_own() -> None:
    assert len({stage.name for stage in stages.STAGES}) == len(stages.STAGES) == 41
