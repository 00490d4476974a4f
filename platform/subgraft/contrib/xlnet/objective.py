"""XLNet's permutation language modelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.config.settings_base import Count, MemoryTokens
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


class PermutationSettings(AnyObjective):
    """XLNet's permutation language modelling (Yang et al., NeurIPS 2019, section 2).

    Tokens are predicted one after another in a random order, each given the context and the targets before it.
    input: sentences reads each line alone; doc-sentences reads blocks of consecutive sentences of one document;
    segment-pair reads such blocks in two segments, of which the second is from another document half of the time.
    block_tokens: the maximum number of tokens of a block; the training's max_length by default.
    partial_prediction: K of section 2.3: one of K tokens is predicted, the others are context; 1 predicts all.
    spans: whether targets are spans of 1 to 5 tokens, each in a context of K times its length, and not single tokens.
    bidirectional: whether half of the documents are read backwards, a different half in every epoch.
    memory_tokens: how many states of the document's earlier blocks a block can attend to (384 in the paper).
    next_sentence: whether the state of <cls> also predicts if the second segment follows the first; the head for it is
    not part of the model.
    """

    kind: Literal["permutation"] = "permutation"
    input: Literal["sentences", "doc-sentences", "segment-pair"] = "sentences"
    block_tokens: Annotated[int, Field(ge=8, le=MAX_SEQUENCE_LENGTH)] | None = None
    partial_prediction: Count = 6
    spans: bool = True
    bidirectional: bool = True
    memory_tokens: MemoryTokens = 0
    next_sentence: bool = False

    writes = False

    @property
    def ordered(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _inputs_have_documents(self) -> PermutationSettings:
        if self.memory_tokens and self.input == "sentences":
            raise ValueError("memory_tokens needs earlier blocks of a document: write input: doc-sentences")
        if self.next_sentence and self.input != "segment-pair":
            raise ValueError("next_sentence needs two segments: write input: segment-pair")
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.contrib.xlnet.permutation import permute

        return permute(self, request)
