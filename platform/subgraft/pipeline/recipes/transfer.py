"""The recipe of the stage transfer."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.settings_base import SideName
from subgraft.pipeline.recipes.recipe import Recipe, WithVocabularies


class TransferRecipe(Recipe):
    """package: with its version, which offers a method that is not our own; left out of the fingerprint elsewhere.

    seed: of the random initialisers; the others are given 0, so that all seeds share one transfer.

    keep_seen, keep_matrices: left out of the fingerprint at their defaults.  keep_matrices:
    whether what rows were mixed from is kept beside the model, for a finetuning in which they stay attached.
    """

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = Field(default=None, exclude_if=lambda given: given is None)
    keep_seen: bool = Field(default=True, exclude_if=bool)
    keep_matrices: bool = Field(default=False, exclude_if=lambda given: not given)

    @property
    def model_change(self) -> WithVocabularies:
        return WithVocabularies(self.sides)
