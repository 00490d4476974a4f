"""The layers' memory of streams of documents (Dai et al., ACL 2019, section 3.2).

Checkpoints include it, because recomputed states would have newer weights and other dropout masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.modeling.families import family_of
from subgraft.training.progress import BatchCallback
from subgraft.training.streams import NO_BLOCK, NO_POSITION, StreamedData, StreamPlan

if TYPE_CHECKING:
    from subgraft.training.engine import Batch, Engine
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


def require_fitting_memory(tokens: int, lengths: np.ndarray, first_blocks: np.ndarray) -> None:
    """Raise UserError if a memory has more states than the longest document.

    lengths: of the blocks [n].  first_blocks: of each document, and the end of the last [D + 1].
    """
    longest = int(np.add.reduceat(lengths, first_blocks[:-1]).max())
    if tokens > longest:
        raise UserError(
            f"memory_tokens {tokens} is more than the {longest} tokens of the longest document",
            where="upstream.objectives",
            hint="Lower memory_tokens; a few blocks' tokens are enough.",
        )


def with_memory(objective: Any, first_blocks: np.ndarray, tokens: int, request: ObjectiveInputs) -> Objective:
    """An objective on blocks of documents, whose model's layers read their own states of earlier blocks.

    Args:
        objective: The objective.
        first_blocks: Of each document, and the end of the last [D + 1].
        tokens: The number of remembered states.
        request: The inputs of the objective.

    Raises:
        UserError: The model has no such layers, or the memory is longer than every document.
    """
    family = family_of(request.bundle.model)
    if family.memory is None:
        raise UserError(
            f"memory_tokens: a model of the family {family.model_type} has no layers with a memory",
            hint="Leave out memory_tokens, or give `model: {family: branched}`.",
        )
    remembering: Objective = imported(family.memory)(objective, first_blocks, tokens, request)
    return remembering


class Recalled(NamedTuple):
    """Remembered states [L, m, B, d]. filled: how many of the m positions, the last ones, each row has, int64 [B]."""

    states: Tensor
    filled: Tensor

    @property
    def empty(self) -> Tensor:
        """Which positions of each row hold nothing [B, m]."""
        size = self.states.shape[1]
        return torch.arange(size, device=self.filled.device)[None] < size - self.filled[:, None]


class StreamRows(NamedTuple):
    """The stream of each row of a batch, the block that it continues, and the block that it is [B]."""

    streams: Tensor
    before: Tensor
    blocks: Tensor

    @classmethod
    def of(cls, plan: StreamPlan, blocks: np.ndarray, epoch: int) -> StreamRows:
        """The rows of a batch of blocks in an epoch."""
        arrays = plan.streams(epoch)[blocks], plan.before(blocks, epoch), blocks.astype(np.int64)
        return cls(*(torch.from_numpy(each) for each in arrays))


class StreamMemory(BatchCallback):
    """The last `tokens` states of each stream's document, for every layer.

    Between updates, the workers exchange the states that they computed. Each stream has at most one block in a batch.
    """

    def __init__(self, width: int, layers: int, tokens: int, size: int) -> None:
        """Allocate an empty memory.

        Args:
            width: the number of streams.
            layers: the number of layers.
            tokens: the number of states of a stream.
            size: the width d of the states.
        """
        self.tokens = tokens
        self._states = torch.zeros(width, layers, tokens, size)
        # The last block in each stream's memory, and the number of its states.
        self._blocks = torch.full((width,), NO_BLOCK, dtype=torch.long)
        self._filled = torch.zeros(width, dtype=torch.long)
        self._written = torch.zeros(width, dtype=torch.bool)
        self._workers: Engine | None = None

    def recall(self, streams: Tensor, before: Tensor) -> Recalled | None:
        """The memory of the rows of a batch; None if no row has a memory.

        Args:
            streams: the stream of each row [B].
            before: the block that each row continues [B].
        """
        stream_ids, continued = streams.cpu(), before.cpu()
        matches = (continued != NO_BLOCK) & (self._blocks[stream_ids] == continued)
        if not matches.any():
            return None
        filled = torch.where(matches, self._filled[stream_ids], 0)
        states = self._states[stream_ids.to(self._states.device)].permute(1, 2, 0, 3)
        return Recalled(states, filled.to(self._states.device))

    @torch.no_grad()
    def keep(self, streams: Tensor, before: Tensor, blocks: Tensor, states: Tensor, carried: Tensor) -> None:
        """Append the states of a batch to the memory of its streams.

        Args:
            streams: the stream of each row [B].
            before: the block that each row continues [B].
            blocks: the block of each row [B].
            states: the states of all layers [L, B, T, d].
            carried: the positions to remember, ascending, padded with NO_POSITION on the left [B, m].
        """
        self._states = self._states.to(states.device)
        size, rows = self.tokens, torch.arange(len(blocks), device=states.device)[:, None]
        new = states[:, rows, carried.clamp(min=0)].permute(1, 0, 2, 3).float()
        recalled, count = self.recall(streams, before), (carried != NO_POSITION).sum(dim=1)
        old = torch.zeros_like(new) if recalled is None else recalled.states.permute(2, 0, 1, 3)
        age = torch.arange(size - 1, -1, -1, device=states.device)[None]
        index = size - 1 - age + torch.where(age < count[:, None], size, count[:, None])
        old_and_new = torch.cat([old, new], dim=2)
        self._states[streams] = old_and_new.gather(2, index[:, None, :, None].expand_as(new))
        stream_ids, previous = streams.cpu(), 0 if recalled is None else recalled.filled
        self._filled[stream_ids] = (count + previous).clamp(max=size).cpu()
        self._blocks[stream_ids] = blocks.cpu()
        self._written[stream_ids] = True

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """Exchange the memory, so that every worker has that of all streams; the batches are not changed."""
        del step
        self._workers = engine
        self._exchange()
        return batches

    def state(self) -> dict[str, Tensor]:
        self._exchange()
        return {"memory": self._states, "memory_blocks": self._blocks, "memory_filled": self._filled}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._states = tensors["memory"].to(self._states.device).clone()
        self._blocks, self._filled = tensors["memory_blocks"].clone(), tensors["memory_filled"].clone()
        self._written.zero_()

    def _exchange(self) -> None:
        """Send the states that each worker wrote since the last exchange; of several writers, the first one counts."""
        engine = self._workers
        if engine is None or engine.world == 1:
            return
        device = engine.device
        writer = torch.where(self._written, engine.rank, engine.world).to(device)
        dist.all_reduce(writer, op=dist.ReduceOp.MIN)
        own = writer == engine.rank
        if engine.rank == 0:
            own |= writer == engine.world  # states that nobody wrote are equal on all workers
        self._states = self._states.to(device)
        self._states[~own] = 0.0
        dist.all_reduce(self._states)
        both = torch.stack([self._blocks, self._filled]).to(device) * own
        dist.all_reduce(both)
        self._blocks, self._filled = both.cpu().unbind()
        self._written.zero_()


class Memories(BatchCallback):
    """The memories of several objectives in one training, by kind. A batch fills the memory of its objective."""

    def __init__(self, memories: Mapping[str, BatchCallback]) -> None:
        self._memories = memories

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """Exchange all memories; the batches are not changed."""
        for memory in self._memories.values():
            memory.prepare(batches, step, engine)
        return batches

    def state(self) -> dict[str, Tensor]:
        return {
            f"{kind}.{name}": tensor
            for kind, memory in self._memories.items()
            for name, tensor in memory.state().items()
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        for kind, memory in self._memories.items():
            prefix = f"{kind}."
            memory.load_state(
                {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            )


def memory_of(data: Mapping[str, object]) -> BatchCallback | None:
    """The memory of a training on these objectives, by kind; None if none of them has one."""
    memories = {kind: each.memory for kind, each in data.items() if isinstance(each, StreamedData)}
    return Memories(memories) if len(memories) > 1 else next(iter(memories.values()), None)
