"""The memory that layers have of streams of documents (Dai et al., ACL 2019, section 3.2).

It is part of a checkpoint: computed again, it would have newer weights and other dropout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.training.streams import NO_BLOCK, NO_PLACE, StreamedData, StreamPlan

if TYPE_CHECKING:
    from subgraft.training.engine import Batch, Engine
    from subgraft.training.progress import Preparation


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


class Recalled(NamedTuple):
    """states: [L, m, B, d].  filled: how many of the last of m places each row has, int64 [B]."""

    states: Tensor
    filled: Tensor

    @property
    def empty(self) -> Tensor:
        """Which places of each row hold nothing [B, m]."""
        size = self.states.shape[1]
        return torch.arange(size, device=self.filled.device)[None] < size - self.filled[:, None]


class StreamRows(NamedTuple):
    """The stream of each row of a batch, the block that it continues, and the block that it is [B]."""

    streams: Tensor
    before: Tensor
    blocks: Tensor

    @classmethod
    def of(cls, plan: StreamPlan, blocks: np.ndarray, epoch: int) -> StreamRows:
        """Those of a batch of blocks in an epoch."""
        arrays = plan.streams(epoch)[blocks], plan.before(blocks, epoch), blocks.astype(np.int64)
        return cls(*(torch.from_numpy(each) for each in arrays))


class StreamMemory:
    """The last `tokens` states of each stream's document, for every layer.

    It is a `Preparation`: between updates, the workers exchange what they computed. Each stream has at most one block
    in a batch.
    """

    every: int | None = None

    def __init__(self, width: int, layers: int, tokens: int, size: int) -> None:
        """width: streams.  tokens: states of a stream.  size: d."""
        self.tokens = tokens
        self._states = torch.zeros(width, layers, tokens, size)
        # The block that a stream's memory ends with, and how many states it has.
        self._blocks = torch.full((width,), NO_BLOCK, dtype=torch.long)
        self._filled = torch.zeros(width, dtype=torch.long)
        self._written = torch.zeros(width, dtype=torch.bool)
        self._workers: Engine | None = None

    def recall(self, streams: Tensor, before: Tensor) -> Recalled | None:
        """The memory of rows; None if none of them has one. before: the block that each continues [B]."""
        places, wanted = streams.cpu(), before.cpu()
        here = (wanted != NO_BLOCK) & (self._blocks[places] == wanted)
        if not here.any():
            return None
        filled = torch.where(here, self._filled[places], 0)
        states = self._states[places.to(self._states.device)].permute(1, 2, 0, 3)
        return Recalled(states, filled.to(self._states.device))

    @torch.no_grad()
    def keep(self, streams: Tensor, before: Tensor, blocks: Tensor, states: Tensor, carried: Tensor) -> None:
        """Append a batch's states to what its rows remember.

        Args:
            streams: of the rows [B].
            before: the blocks that they continue [B].
            blocks: the blocks that they are [B].
            states: [L, B, T, d].
            carried: positions to remember, ascending, after NO_PLACEs [B, m].
        """
        self._states = self._states.to(states.device)
        size, rows = self.tokens, torch.arange(len(blocks), device=states.device)[:, None]
        new = states[:, rows, carried.clamp(min=0)].permute(1, 0, 2, 3).float()
        recalled, count = self.recall(streams, before), (carried != NO_PLACE).sum(dim=1)
        old = torch.zeros_like(new) if recalled is None else recalled.states.permute(2, 0, 1, 3)
        age = torch.arange(size - 1, -1, -1, device=states.device)[None]
        place = size - 1 - age + torch.where(age < count[:, None], size, count[:, None])
        both = torch.cat([old, new], dim=2)
        self._states[streams] = both.gather(2, place[:, None, :, None].expand_as(new))
        places, had = streams.cpu(), 0 if recalled is None else recalled.filled
        self._filled[places] = (count + had).clamp(max=size).cpu()
        self._blocks[places] = blocks.cpu()
        self._written[places] = True

    def look_ahead(self, batches: Iterable[Batch], engine: Engine) -> None:
        """Nothing: streams need no batch that is still to come."""

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """The same batches; every worker then knows the memory of all streams."""
        del step
        self._workers = engine
        self._exchange()
        return batches

    def measured(self) -> Mapping[str, float]:
        return {}

    def state(self) -> dict[str, Tensor]:
        self._exchange()
        return {"memory": self._states, "memory_blocks": self._blocks, "memory_filled": self._filled}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._states = tensors["memory"].to(self._states.device).clone()
        self._blocks, self._filled = tensors["memory_blocks"].clone(), tensors["memory_filled"].clone()
        self._written.zero_()

    def _exchange(self) -> None:
        """The states that each worker wrote since the last exchange; if several wrote a stream, those of the first."""
        engine = self._workers
        if engine is None or engine.world == 1:
            return
        device = engine.device
        writer = torch.where(self._written, engine.rank, engine.world).to(device)
        dist.all_reduce(writer, op=dist.ReduceOp.MIN)
        own = writer == engine.rank
        if engine.rank == 0:
            own |= writer == engine.world  # what nobody wrote is everywhere the same
        self._states = self._states.to(device)
        self._states[~own] = 0.0
        dist.all_reduce(self._states)
        both = torch.stack([self._blocks, self._filled]).to(device) * own
        dist.all_reduce(both)
        self._blocks, self._filled = both.cpu().unbind()
        self._written.zero_()


class Memories:
    """The memories of several objectives in one training, by kind; a batch fills that of its own objective."""

    every: int | None = None

    def __init__(self, memories: Mapping[str, Preparation]) -> None:
        self._memories = memories

    def look_ahead(self, batches: Iterable[Batch], engine: Engine) -> None:
        """Nothing: streams need no batch that is still to come."""

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """The same batches; every worker then knows all memories."""
        for memory in self._memories.values():
            memory.prepare(batches, step, engine)
        return batches

    def measured(self) -> Mapping[str, float]:
        return {}

    def state(self) -> dict[str, Tensor]:
        return {
            f"{kind}.{name}": tensor
            for kind, memory in self._memories.items()
            for name, tensor in memory.state().items()
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        for kind, memory in self._memories.items():
            start = f"{kind}."
            memory.load_state(
                {name.removeprefix(start): each for name, each in tensors.items() if name.startswith(start)}
            )


def memory_of(data: Mapping[str, object]) -> Preparation | None:
    """The memory of a training on these objectives, by kind; None if none of them has one."""
    memories = {kind: each.memory for kind, each in data.items() if isinstance(each, StreamedData)}
    return Memories(memories) if len(memories) > 1 else next(iter(memories.values()), None)
