"""The recipe of the stage evaluate."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings, RankingSettings
from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.pipeline.recipes.recipe import Recipe


class EvaluateRecipe(Recipe):
    """speed: whether generation is timed.  split: what is translated, its first `test_sentences`.

    Both are left out of the fingerprint at their defaults.  objective: how the text was learnt; left out where it is
    pairs.  packages: the package and version of each metric that is not our own; left out where there is none.
    ranking: of a model's sources; left out where it has none.
    """

    languages: Languages
    evaluation: MeasurementSettings
    speed: bool = Field(default=True, exclude_if=bool)
    split: Literal["dev", "test"] = Field(default="test", exclude_if=lambda given: given == "test")
    objective: TaskObjectiveSettings = Field(
        default=TranslationSettings(), exclude_if=lambda given: given == TranslationSettings()
    )
    packages: dict[str, str] = Field(default_factory=dict, exclude_if=lambda given: not given)
    ranking: RankingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
