"""The recipe of the stage likelihood."""

from __future__ import annotations

from subgraft.config.corpora import Languages
from subgraft.pipeline.recipes.recipe import Recipe


class LikelihoodRecipe(Recipe):
    """test_sentences: the first ones of the test set; all where it is None."""

    languages: Languages
    test_sentences: int | None = None
