"""ERNIE 3's recurrence in training: each layer reads its own states of the previous blocks of a document (Sun et al.,
2021, section 3.1, after ERNIE-Doc, Ding et al., ACL 2021, equation 4).

It can be used with masked and with causal language modelling, which have separate memories: they train different
branches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.contrib.ernie3.branched import BranchName, SegmentMemory
from subgraft.modeling.families import family_of
from subgraft.training.objectives.compute.causal import CausalObjective
from subgraft.training.objectives.compute.embedding_view import EmbeddingView
from subgraft.training.objectives.compute.interface import GeneratorView, ObjectiveInputs
from subgraft.training.objectives.compute.masked import MaskedObjective
from subgraft.training.objectives.compute.single_stack import StackBatch, StackLoss, StackStates
from subgraft.training.schedule import StagedData
from subgraft.training.stream_memory import StreamMemory, StreamRows, require_fitting_memory
from subgraft.training.streams import NO_POSITION, StreamPlan


@dataclass(frozen=True)
class RecurrentBatch(StackBatch):
    """Blocks of documents, in streams.

    Attributes:
        streams, before, blocks: the stream of each row, the block that it continues, and its own block [B].
        carried: the positions to remember, padded with NO_POSITION on the left [B, m].
    """

    streams: Tensor
    before: Tensor
    blocks: Tensor
    carried: Tensor


class ForwardsRecurrentBatch(RecurrentBatch):
    """A recurrent batch in which each token may only see earlier ones."""

    forwards = True


class RecurrentStates(StackStates):
    """The states of a batch whose layers read a memory."""

    _batch: RecurrentBatch

    def __init__(
        self, model: PreTrainedModel, batch: RecurrentBatch, embedding_view: EmbeddingView, memory: StreamMemory
    ) -> None:
        super().__init__(model, batch, embedding_view)
        self._memory = memory

    @cached_property
    def top(self) -> Tensor:
        return self._outputs.last_hidden_state  # type: ignore[no-any-return]

    @property
    def layer_states(self) -> Tensor:
        """The concatenated states of all layers [B, T, the sum of their widths]."""
        return torch.cat(self._outputs.memory.states, dim=2)

    @cached_property
    def _outputs(self) -> Any:
        batch = self._batch
        body: Any = self._model.base_model
        forwards_inputs = family_of(self._model).forwards_inputs if batch.forwards else {}
        inputs = self._embedding_view.read("decoder", batch.input_ids)
        recalled, memory = self._memory.recall(batch.streams, batch.before), None
        if recalled is not None:
            widths: list[int] = body.layer_widths(branch_of(batch.forwards))
            memory = SegmentMemory(torch.split(recalled.states[0].transpose(0, 1), widths, dim=2), ~recalled.empty)
        return body(**batch.inputs, **inputs, **forwards_inputs, memory=memory)


class RecurrentLoss(StackLoss):
    """The loss of blocks, which fills the memory."""

    def __init__(self, model: PreTrainedModel, label_smoothing: float, memory: StreamMemory) -> None:
        super().__init__(model, label_smoothing)
        self._memory = memory

    def states(self, batch: RecurrentBatch, embedding_view: EmbeddingView) -> RecurrentStates:  # type: ignore[override]
        return RecurrentStates(self.model, batch, embedding_view, self._memory)

    def by(self, embedding_view: EmbeddingView, batch: RecurrentBatch) -> dict[str, Tensor]:
        states = self.states(batch, embedding_view)
        loss = embedding_view.cross_entropy(states.top, batch.labels, self.label_smoothing)
        self._memory.keep(batch.streams, batch.before, batch.blocks, states.layer_states[None].detach(), batch.carried)
        return {"loss": loss}


class ForwardsRecurrentLoss(RecurrentLoss):
    """The loss of `ForwardsRecurrentBatch`."""

    forwards = True


class RecurrentObjective:
    """An objective on blocks of documents, each of which remembers those before it.

    Generators are trained, and dev text is scored, without a memory.
    """

    def __init__(
        self,
        objective: MaskedObjective | CausalObjective,
        first_blocks: np.ndarray,
        tokens: int,
        request: ObjectiveInputs,
    ) -> None:
        """Add a memory to an objective.

        Args:
            objective: the objective.
            first_blocks: the first block of each document, and the end of the last [D + 1].
            tokens: the number of remembered states.
            request: the inputs of the objective.

        Raises:
            UserError: The memory is longer than every document.
        """
        self._objective, self._model = objective, request.bundle.model
        self.select, self.lower_is_better = objective.select, objective.lower_is_better
        self.lengths: np.ndarray = objective.lengths
        self._tokens, self._forwards = tokens, isinstance(objective, CausalObjective)
        require_fitting_memory(tokens, self.lengths, first_blocks)
        width, documents = max(1, request.training.batch_size // int(self.lengths.max())), len(first_blocks) - 1
        self.plan = StreamPlan(
            self.lengths, first_blocks, width, request.seed, lambda epoch: np.zeros(documents, dtype=np.bool_)
        )

    @cached_property
    def memory(self) -> StreamMemory:
        """The memory of each stream; a training has one, which its loss fills."""
        body: Any = self._model.base_model
        widths = body.layer_widths(branch_of(self._forwards))
        return StreamMemory(self.plan.width, 1, self._tokens, sum(widths))

    def begin(self, step: int) -> None:
        """Pass the step on to an objective that depends on it."""
        if isinstance(self._objective, StagedData):
            self._objective.begin(step)

    def batch(self, indices: np.ndarray, epoch: int) -> RecurrentBatch:
        batch = self._objective.batch(indices, epoch)
        # The positions of the last tokens of each block, without [CLS] and [SEP], or the token that is read again.
        sizes = batch.attention_mask.sum(dim=1)
        places = sizes[:, None] - 1 - self._tokens + torch.arange(self._tokens)[None]
        carried = torch.where(places >= (0 if self._forwards else 1), places, NO_POSITION)
        kind = ForwardsRecurrentBatch if self._forwards else RecurrentBatch
        return kind(
            batch.input_ids,
            batch.attention_mask,
            batch.labels,
            *StreamRows.of(self.plan, indices, epoch),
            carried,
        )

    def loss(self, label_smoothing: float) -> RecurrentLoss:
        kind = ForwardsRecurrentLoss if self._forwards else RecurrentLoss
        return kind(self._model, label_smoothing, self.memory)

    def view(self, name: SideName) -> GeneratorView[Any]:
        return self._objective.view(name)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        return self._objective.dev_scores()


def branch_of(forwards: bool) -> BranchName:
    """The branch that reads a batch."""
    return "nlg" if forwards else "nlu"
