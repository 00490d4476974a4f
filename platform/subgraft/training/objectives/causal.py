"""Causal language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.config.settings_base import MemoryTokens
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs, TaskText, TrainedText

A = TypeVar("A", bound=AnyObjective)


class CausalSettings(AnyObjective):
    """Causal language modelling (Radford et al., 2019, section 2).

    packed: whether lines are concatenated, with `separator` between them, and cut into blocks of `block_tokens`, as for
    GPT-2; if not, each line is an example.
    block_tokens: the length of a block; the training's max_length by default.
    separator: the role of the special token between lines.
    memory_tokens: as for `masked`; blocks are then of one document each, of a corpus with documents.
    """

    kind: Literal["causal"] = "causal"
    packed: bool = True
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None
    separator: Literal["eos", "bos"] = "eos"
    memory_tokens: MemoryTokens = 0

    continues = True

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.recurrent

    @property
    def recurrent(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _remembers_blocks(self) -> CausalSettings:
        if self.memory_tokens and not self.packed:
            raise ValueError("memory_tokens needs earlier blocks of a document: leave out `packed: false`")
        return self

    def after(self, pretrained: Sequence[AnyObjective]) -> Self:
        return with_separator_of(self, pretrained)

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.causal import CausalObjective
        from subgraft.training.stream_memory import with_memory

        objective = CausalObjective(self, request)
        if not self.recurrent:
            return objective
        return with_memory(objective, objective.first_blocks, self.memory_tokens, request)

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.objectives.compute.causal import TaskLines

        return TaskLines(self, request, training)

    def additional(self, request: ObjectiveInputs, training: FinetuneSettings) -> TrainedText:
        from subgraft.training.objectives.compute.causal import TaskLines

        return TaskLines(self, request, training, limited=False)


def with_separator_of(settings: A, pretrained: Sequence[AnyObjective]) -> A:
    """The settings with the separator between lines that a language model was pretrained with."""
    separators = [each.separator for each in pretrained if isinstance(each, CausalSettings)]
    return settings.model_copy(update={"separator": separators[0]}) if separators else settings
