"""The recipe of the stage report."""

from __future__ import annotations

from typing import Any

from subgraft.config.experiment import Experiment
from subgraft.recipes.recipe import Recipe


class ReportRecipe(Recipe):
    """What the report says about the experiment as a whole; everything else is read from the inputs."""

    experiment: dict[str, Any]

    @classmethod
    def of(cls, experiment: Experiment) -> ReportRecipe:
        return cls(experiment=experiment.model_dump(mode="json", exclude={"runtime", "corpora", "search"}))
