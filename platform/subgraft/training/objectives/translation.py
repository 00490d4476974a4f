"""Translation: of sentences, of documents in blocks, and of sentences in the context of those before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs, TaskText, TrainedText


class TranslationSettings(AnyObjective):
    """The target sentence given the source sentence."""

    kind: Literal["translation"] = "translation"

    needs_pairs = True
    needs_dev = True
    translates = True
    samples = True

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.translation import TranslationObjective

        return TranslationObjective(request)

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.objectives.compute.translation import TaskPairs

        return TaskPairs(request, training)

    def additional(self, request: ObjectiveInputs, training: FinetuneSettings) -> TrainedText:
        from subgraft.training.objectives.compute.translation import TaskPairs

        return TaskPairs(request, training, limited=False)


class DocumentTranslationSettings(AnyObjective):
    """Blocks of consecutive sentences of a document, given those of the source (Liu et al., TACL 2020, section 4).

    block_tokens: the maximum number of tokens of a block of the source; the training's max_length limits those of the
    target.
    """

    kind: Literal["document-translation"] = "document-translation"
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)]

    needs_pairs = True
    needs_dev = True
    needs_documents = True
    translates = True

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.objectives.compute.document_translation import TaskDocuments

        return TaskDocuments(self, request, training)
