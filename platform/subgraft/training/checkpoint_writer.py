"""Schedules the checkpoints of a training and writes them, synchronously or in a thread from a copy.

All workers copy their state after the same update. Once every worker has written its shard, rank 0 publishes the
checkpoint. Workers agree on this by all-reducing flags after an update. The writer threads never communicate, because
the collectives of two threads could run in a different order on each worker.
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
from subgraft.training.checkpoint import DISK_FULL_HINT, Checkpoints
from subgraft.training.engine import Engine, sum_over_workers
from subgraft.training.tensor_shards import TensorSlice

# Bytes of the message that a worker sends to the others when it fails.
_MESSAGE_BYTES = 400


class CheckpointWriter:
    """Writes the checkpoints of a training, one at a time. On exit, the context waits for the last one.

    Args:
        checkpoints: the checkpoint directory.
        engine: the engine, which knows the rank of this worker.
        seconds: the interval between two checkpoints.
        background: whether to copy the state to main memory and write it in a thread while training continues.
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
        """Allocate the memory for background copies, so that a lack of memory is noticed at the start."""
        if self._background and self._writes(parts):
            self._copy_to_host(tensors)

    def due(self, force: bool) -> bool:
        """Whether all workers must write a checkpoint after this update.

        A checkpoint that is due while the previous one is still being written is postponed. With `force`, this waits
        for the previous one instead. Raises OperationalError on every worker if any worker failed to write it.
        """
        late = time.monotonic() - self._saved_at >= self._seconds
        busy = self._thread is not None and self._thread.is_alive()
        counts = self._count_workers(late=late, busy=busy, failed=self._error is not None)
        if force or counts["failed"] or not counts["busy"]:
            self.finish()
        return force or bool(counts["late"] and not counts["busy"])

    def write(
        self,
        step: int,
        tensors: Mapping[str, Tensor],
        frozen: Mapping[str, Tensor],
        parts: Mapping[str, TensorSlice],
        state: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint, or start to write it in the background. All workers call it when `due` returns True.

        Args:
            step: the number of updates.
            tensors: the tensors that updates change.
            frozen: the other tensors, which need no copy.
            parts: the slices of the tensors that are divided among workers.
            state: the JSON state.
        """
        self._saved_at = time.monotonic()
        rank, world = self._engine.rank, self._engine.world
        if self._writes(parts):
            state_tensors = {**(self._copy_to_host(tensors) if self._background else tensors), **frozen}
            if parts:
                own = {name: tensor for name, tensor in state_tensors.items() if name in parts or rank == 0}
                self._start(partial(self._checkpoints.save_shard, step, own, parts, rank, world))
            else:
                self._start(partial(self._checkpoints.save, step, state_tensors, state))
        if parts and rank == 0:
            self._publish = partial(self._checkpoints.publish, step, state, world)
        if not self._background:
            self.finish()

    def finish(self) -> None:
        """Wait for the last checkpoint. Raises OperationalError on every worker if any failed to write it."""
        self._join()
        if not self._count_workers(failed=self._error is not None)["failed"]:
            publish, self._publish = self._publish, None
            if publish is not None:
                self._attempt(publish)
        if self._count_workers(failed=self._error is not None)["failed"]:
            raise self._resolve_error()

    def _writes(self, parts: Mapping[str, TensorSlice]) -> bool:
        """Whether this worker writes a file: rank 0 always does, the others if the state is sharded."""
        return self._engine.rank == 0 or bool(parts)

    def _start(self, job: Callable[[], None]) -> None:
        if self._background:
            self._thread = threading.Thread(target=self._attempt, args=(job,), name="checkpoint", daemon=True)
            self._thread.start()
        else:
            self._attempt(job)

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # `finish` raises it on all workers
            self._error = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _copy_to_host(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of the tensors in main memory; their buffers are allocated once."""
        for name, tensor in tensors.items():
            buffer = self._copies.get(name)
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                # From a GPU to pinned memory, copies are several times as fast and need not wait for one another.
                self._copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
            self._copies[name].copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        if self._engine.device.type == "cuda":
            torch.cuda.current_stream(self._engine.device).synchronize()
        return {name: self._copies[name] for name in tensors}

    def _count_workers(self, **values: bool) -> dict[str, float]:
        """For each flag, the number of workers on which it is set."""
        return sum_over_workers({name: float(value) for name, value in values.items()}, list(values), self._engine)

    def _resolve_error(self) -> Exception:
        """The error of this worker, or else an error with the message of the first worker that failed."""
        own = "" if self._error is None else getattr(self._error, "what", str(self._error))
        message = own
        if self._engine.world > 1:
            lines = torch.zeros(self._engine.world, _MESSAGE_BYTES, dtype=torch.uint8)
            encoded = own.encode()[:_MESSAGE_BYTES]
            lines[self._engine.rank, : len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
            lines = lines.to(self._engine.device)
            dist.all_reduce(lines)
            texts = (bytes(line.tolist()).rstrip(b"\0").decode(errors="ignore") for line in lines.cpu())
            message = next((text for text in texts if text), own)
        return self._error or OperationalError(message, where=self._checkpoints.location, hint=DISK_FULL_HINT)
