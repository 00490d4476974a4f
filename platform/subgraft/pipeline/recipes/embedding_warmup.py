"""The recipe of the stage rows first."""

from __future__ import annotations

from typing import ClassVar

from subgraft.pipeline.recipes.finetune import FinetuneRecipe


class RowsFirstRecipe(FinetuneRecipe):
    """A finetuning of new rows alone, on nothing but the domain's text."""

    group: ClassVar[str] = "rows_first_training"
