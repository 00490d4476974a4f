"""The upstream vocabularies, extended or trimmed by the task's text, as steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from subgraft.pipeline import stages
from subgraft.config.settings_base import SideName, TextSide
from subgraft.config.vocabularies import TaskVocabularySettings
from subgraft.pipeline.recipes.vocabularies import AdaptedVocabularyRecipe
from subgraft.orchestration.store.step import Step

# What a text has once is no subword to add; what it never has can go.
LEAST_ADDED, LEAST_KEPT = 2, 1


def adapted_vocabulary_step(
    settings: TaskVocabularySettings,
    side: SideName,
    text: TextSide | Literal["both"],
    inputs: Mapping[str, Step],
) -> Step[AdaptedVocabularyRecipe]:
    """The vocabulary of a side of the upstream model, by one text of the task or by both.

    inputs: the task's `corpus`, the upstream `vocabulary` or `model`, and further `text`, if any.
    """
    extends = settings.mode == "extend"
    recipe = AdaptedVocabularyRecipe(
        side=text,
        model_side=side,
        added=settings.size if extends else None,
        min_count=settings.min_count or (LEAST_ADDED if extends else LEAST_KEPT),
    )
    whose = "model" if text == "both" else side
    name = f"vocabulary of the {whose}, {'extended' if extends else 'trimmed'} by {inputs['corpus'].name}"
    return Step(stages.ADAPTED_VOCABULARY, name, recipe, inputs)
