"""The recipe of the stage likelihood."""

from __future__ import annotations

from subgraft.config.base import Settings
from subgraft.config.corpora import Languages


class LikelihoodRecipe(Settings):
    """test_sentences: the first ones of the test set; all where it is None."""

    languages: Languages
    test_sentences: int | None = None
