"""PretrainedModel and Vocabulary → TransferredModel: new tables, everything else as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config import Settings, SideName
from subgraft.stages.context import Context, Json


class TransferRecipe(Settings):
    """seed: of the random initialisers; the others are given 0, so that all seeds share one transfer."""

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int


def run(recipe: TransferRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]: ...
