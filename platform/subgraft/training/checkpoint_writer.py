"""When a training's checkpoints are written, and by whom: while it waits, or in a thread from a copy as it goes on.

Several workers act in step: all take a copy after the same update, and only when each has written what it has is one
of them to publish the whole. That they agree on with sums that they make after an update anyway.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from subgraft.base.errors import OperationalError
from subgraft.training.checkpoint import ROOM, Checkpoints
from subgraft.training.engine import Engine, sum_over_workers
from subgraft.training.tensor_shards import TensorSlice

# Bytes of what a worker tells the others of its failure.
_TOLD = 400


class CheckpointWriter:
    """Writes checkpoints of a training, one at a time. As a context, its clock runs, and nothing is left being written.

    seconds: how often one is due.  background: whether they are written from a copy, in the memory of the machine,
    while training goes on.
    """

    def __init__(self, checkpoints: Checkpoints, engine: Engine, seconds: float, background: bool) -> None:
        self._checkpoints, self._engine = checkpoints, engine
        self._seconds, self._background = seconds, background
        self._copies: dict[str, Tensor] = {}
        self._saved_at = time.monotonic()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._publish: Callable[[], None] | None = None

    def __enter__(self) -> CheckpointWriter:
        self._saved_at = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._join()

    def reserve(self, tensors: Mapping[str, Tensor], parts: Mapping[str, TensorSlice]) -> None:
        """Take the memory that copies of these will need, so that it shows at the start whether there is enough."""
        if self._background and self._writes(parts):
            self._copied(tensors)

    def due(self, force: bool) -> bool:
        """Whether the state after this update is to be written, on which all workers agree.

        Where the one before is still being written, it is put off, or waited for if it is forced. Raises
        OperationalError on every worker where the one before could not be written on one.
        """
        late = time.monotonic() - self._saved_at >= self._seconds
        busy = self._thread is not None and self._thread.is_alive()
        found = self._sums(late=late, busy=busy, failed=self._error is not None)
        if force or found["failed"] or not found["busy"]:
            self.finish()
        return force or bool(found["late"] and not found["busy"])

    def write(
        self,
        step: int,
        tensors: Mapping[str, Tensor],
        kept: Mapping[str, Tensor],
        parts: Mapping[str, TensorSlice],
        state: Mapping[str, Any],
    ) -> None:
        """Write the state after `step` updates, or begin to. All workers call it, after `due` said so.

        tensors: what the next update changes.  kept: what none does.  parts: of the tensors of which no worker has all.
        """
        self._saved_at = time.monotonic()
        rank, world = self._engine.rank, self._engine.world
        if self._writes(parts):
            whole = {**(self._copied(tensors) if self._background else tensors), **kept}
            if parts:
                own = {name: tensor for name, tensor in whole.items() if name in parts or rank == 0}
                self._begin(partial(self._checkpoints.save_shard, step, own, parts, rank, world))
            else:
                self._begin(partial(self._checkpoints.save, step, whole, state))
        if parts and rank == 0:
            self._publish = partial(self._checkpoints.publish, step, state, world)
        if not self._background:
            self.finish()

    def finish(self) -> None:
        """Wait until the last one is there. Raises OperationalError on every worker where it could not be written."""
        self._join()
        if not self._sums(failed=self._error is not None)["failed"]:
            publish, self._publish = self._publish, None
            if publish is not None:
                self._attempt(publish)
        if self._sums(failed=self._error is not None)["failed"]:
            raise self._failure()

    def _writes(self, parts: Mapping[str, TensorSlice]) -> bool:
        """Whether this worker writes anything."""
        return self._engine.rank == 0 or bool(parts)

    def _begin(self, job: Callable[[], None]) -> None:
        if self._background:
            self._thread = threading.Thread(target=self._attempt, args=(job,), name="checkpoint", daemon=True)
            self._thread.start()
        else:
            self._attempt(job)

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # raised where all workers know of it
            self._error = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _copied(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies in the machine's memory, which is taken once."""
        for name, tensor in tensors.items():
            held = self._copies.get(name)
            if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
                self._copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            self._copies[name].copy_(tensor.detach())
        return {name: self._copies[name] for name in tensors}

    def _sums(self, **values: bool) -> dict[str, float]:
        return sum_over_workers({name: float(value) for name, value in values.items()}, list(values), self._engine)

    def _failure(self) -> Exception:
        """What could not be done, said by the first worker that has anything to say."""
        own = "" if self._error is None else getattr(self._error, "what", str(self._error))
        told = _first_told(own, self._engine)
        return self._error or OperationalError(told, where=self._checkpoints.place, hint=ROOM)


def _first_told(own: str, engine: Engine) -> str:
    """What the first of the workers says that says anything, on all of them."""
    if engine.world == 1:
        return own
    lines = torch.zeros(engine.world, _TOLD, dtype=torch.uint8)
    said = own.encode()[:_TOLD]
    lines[engine.rank, : len(said)] = torch.tensor(list(said), dtype=torch.uint8)
    lines = lines.to(engine.device)
    dist.all_reduce(lines)
    texts = (bytes(line.tolist()).rstrip(b"\0").decode(errors="ignore") for line in lines.cpu())
    return next((text for text in texts if text), own)
