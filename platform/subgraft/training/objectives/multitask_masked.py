"""UniLM's masking under several attention masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


class MultitaskMaskedSettings(AnyObjective):
    """UniLM's masking (Dong et al., NeurIPS 2019): BERT's, where 1/6 of the blocks are read from left to right, 1/6
    from right to left, 1/3 in both directions, and 1/3 in both in their first half and from left to right in the rest.

    share: the fraction of the tokens to predict.
    block_tokens: the maximum number of tokens of a block of sentences of one document; the training's max_length by
    default.
    """

    kind: Literal["multitask-masked"] = "multitask-masked"
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None

    needs_mask = True
    draws_blocks = True
    writes = False

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.multitask_masked import MultitaskMaskedObjective

        return MultitaskMaskedObjective.of(self, request)
