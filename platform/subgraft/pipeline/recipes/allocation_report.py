"""The recipe of the stage allocation report."""

from __future__ import annotations

from subgraft.pipeline.recipes.recipe import Recipe


class AllocationReportRecipe(Recipe):
    """Inputs: `curve/LANGUAGE`, `allocation/TOTAL`, and what was measured: `capacity/VOCABULARY`.

    compared: of each total the names of the vocabularies that are compared, the allocated one first.
    """

    name: str
    languages: tuple[str, ...]
    totals: tuple[int, ...]
    compared: dict[str, tuple[str, ...]]
