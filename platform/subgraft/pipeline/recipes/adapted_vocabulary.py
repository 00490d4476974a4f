"""The recipe of the stage adapted-vocabulary."""

from __future__ import annotations

from typing import Literal

from subgraft.config.settings_base import SideName
from subgraft.pipeline.recipes.recipe import Recipe


class AdaptedVocabularyRecipe(Recipe):
    """An upstream vocabulary with a task's subwords added, or without those that the task does not use.

    The vocabulary is the input `vocabulary`, or that of the input `model` on `model_side`.  side: of the corpus, or
    both for a vocabulary that sides share.  added: how many subwords are added; None where it is trimmed.  min_count:
    what the text has fewer times is not added, or does not stay.
    """

    side: Literal["source", "target", "both"]
    model_side: SideName
    added: int | None
    min_count: int
