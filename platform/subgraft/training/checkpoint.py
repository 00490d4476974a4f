"""Crash-safe checkpoints: written to a temporary directory, synced, renamed, and verified when read.

A checkpoint has one file of tensors, or one per worker if the state is sharded (`tensor_shards`). state.json is
written last; renaming the directory publishes the checkpoint. A damaged one is renamed, and the previous
one is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft.base import json_io
from subgraft.base.errors import OperationalError
from subgraft.base.files import file_digest, sync
from subgraft.training.tensor_shards import (
    Shard,
    ShardedTensors,
    TensorSlice,
    collect_index,
    shard_name,
    write_index_entry,
)

TENSORS = "tensors.safetensors"
STATE = "state.json"
DISK_FULL_HINT = "Make room and run the same command again: it carries on from the last good checkpoint."
_UNFINISHED_PREFIX = ".writing-"
# The number of checkpoints that a training retains.
_RETAINED = 2


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and a JSON state after `step` updates. Sharded tensors are read on access."""

    step: int
    tensors: Mapping[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The last checkpoints of one training, in one directory; a rerun resumes from the newest valid one.

    Methods that write raise OperationalError if they fail, for example on a full disk.
    """

    def __init__(self, directory: Path, warn: Callable[[str], None] = print) -> None:
        self._directory = directory
        self._warn = warn
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def location(self) -> str:
        """The directory of the checkpoints, for messages."""
        return str(self._directory)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write and publish a checkpoint with one file of tensors."""
        if self._final(step).exists():
            return
        unfinished = self._unfinished(step)
        with self._write_errors(step):
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            with _remove_on_error(unfinished):
                _save_tensors(tensors, unfinished / TENSORS)
                self._publish(step, {"step": step, **state}, {"sha256": file_digest(unfinished / TENSORS)})

    def save_shard(
        self, step: int, tensors: Mapping[str, Tensor], parts: Mapping[str, TensorSlice], rank: int, world: int
    ) -> None:
        """Write this worker's shard of a checkpoint, which `publish` completes.

        Args:
            step: number of updates.
            tensors: this worker's tensors: flat slices of those in `parts`, the others complete.
            parts: the slice of the complete tensor that each flat tensor holds.
            rank: the rank of this worker.
            world: the number of workers, which is also the number of shards.
        """
        if self._final(step).exists():
            return
        unfinished, file_name = self._unfinished(step), shard_name(rank, world)
        own = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
        with self._write_errors(step):
            unfinished.mkdir(exist_ok=True)
            with _remove_on_error(unfinished / file_name):
                _save_tensors(own, unfinished / file_name)
                write_index_entry(
                    unfinished, rank, world, {name: parts.get(name) or TensorSlice.whole(own[name]) for name in own}
                )
                sync(unfinished)

    def publish(self, step: int, state: Mapping[str, Any], world: int) -> None:
        """Publish a checkpoint of which all `world` workers have written their shards. Only one worker calls it."""
        if self._final(step).exists():
            return
        with self._write_errors(step), _remove_on_error(self._unfinished(step)):
            shards = collect_index(self._unfinished(step), world)
            self._publish(step, {"step": step, **state}, {"world": world, "shards": [asdict(each) for each in shards]})

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint. Damaged ones are renamed, with a warning each."""
        for directory in reversed(self._published()):
            try:
                return _read(directory)
            except (OSError, ValueError, KeyError, TypeError) as error:
                renamed = self._directory / f"bad-{directory.name}-{os.getpid()}"
                try:
                    directory.rename(renamed)
                except FileNotFoundError:  # another worker has renamed it already
                    continue
                self._warn(f"checkpoint {directory} does not verify ({error}); moved to {renamed.name}")
        return None

    def clear(self) -> None:
        """Remove all checkpoints, after the result of the training was published elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _publish(self, step: int, state: Mapping[str, Any], files: Mapping[str, Any]) -> None:
        """Write state.json, which describes the tensor files, and rename the directory to its final name."""
        unfinished = self._unfinished(step)
        text = json.dumps({"state": state, **files}, sort_keys=True)
        envelope = {"payload": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        (unfinished / STATE).write_text(json.dumps(envelope))
        sync(unfinished / STATE)
        sync(unfinished)
        unfinished.rename(self._final(step))
        sync(self._directory)
        for old in self._published()[:-_RETAINED]:
            shutil.rmtree(old)
        for leftover in self._directory.glob(f"{_UNFINISHED_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextmanager
    def _write_errors(self, step: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"cannot write a checkpoint: {error.strerror or error}"
            raise OperationalError(message, where=str(self._final(step)), hint=DISK_FULL_HINT) from error

    def _published(self) -> list[Path]:
        return sorted(self._directory.glob("step-*"))

    def _final(self, step: int) -> Path:
        return self._directory / f"step-{step:09d}"

    def _unfinished(self, step: int) -> Path:
        return self._directory / f"{_UNFINISHED_PREFIX}{step:09d}"


@contextmanager
def _remove_on_error(path: Path) -> Iterator[None]:
    """Remove an unfinished file or directory after an error, to free space on a full disk."""
    try:
        yield
    except OSError:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        raise


def _save_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
    except Exception as error:  # safetensors wraps the operating system's errors in its own
        raise OSError(str(error)) from error
    sync(file)


def _read(directory: Path) -> Checkpoint:
    envelope = json_io.parse_object((directory / STATE).read_bytes())
    text = envelope["payload"]
    if hashlib.sha256(text.encode()).hexdigest() != envelope["sha256"]:
        raise ValueError(f"{STATE} is damaged")
    description = json_io.parse_object(text)
    state = description["state"]
    tensors: Mapping[str, Tensor]
    if "shards" in description:
        tensors = ShardedTensors(directory, [Shard.from_json(each) for each in description["shards"]])
    elif file_digest(directory / TENSORS) != description["sha256"]:
        raise ValueError(f"{TENSORS} is damaged")
    else:
        tensors = load_file(directory / TENSORS)
    return Checkpoint(state.pop("step"), tensors, state)
