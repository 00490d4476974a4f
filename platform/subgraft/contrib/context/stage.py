"""The stage that gives a finetuned model an encoder that reads the preceding sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.config.corpora import Languages
from subgraft.modeling.families import family_of
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context
    from subgraft.training.stage import KnownInputs


class ContextStage(Stage):
    """The input `model` with an encoder that reads the preceding sentences.

    Attributes:
        seed: Of the new weights.
    """

    stage_name: ClassVar[str] = "context"
    revision: ClassVar[int] = 1

    languages: Languages
    sentences: int
    seed: int

    def config_after(self, inputs: KnownInputs) -> Config:
        model = inputs.config("model")
        return family_of(model).with_context(model, self.sentences, 0)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.context.added_context import add_context

        return add_context(self, inputs, out)
