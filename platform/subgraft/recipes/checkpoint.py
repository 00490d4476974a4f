"""The recipe of the stage checkpoint."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.base import Settings


class CheckpointRecipe(Settings):
    """digest: of the checkpoint's files, or the hub id with its revision; where a directory lies does not count."""

    digest: str
    model: str = Field(exclude=True)
