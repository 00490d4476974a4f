"""Translation of sentences in the context of the sentences before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import ObjectiveInputs, TaskText


class ContextTranslationSettings(AnyObjective):
    """Each sentence of a document, given those of the source before it (Miculicich et al., EMNLP 2018).

    sentences: the maximum number of preceding sentences that are read.
    """

    kind: Literal["context-translation"] = "context-translation"
    sentences: Annotated[int, Field(ge=1, le=20)] = 3

    needs_pairs = True
    needs_dev = True
    needs_documents = True
    translates = True

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.contrib.context.context_translation import TaskInContext

        return TaskInContext(self, request, training)
