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
from subgraft.training.tensor_shards import Shard, ShardedTensors, TensorSlice, collect, describe, shard_name

TENSORS = "tensors.safetensors"
STATE = "state.json"
ROOM = "Make room and run the same command again: it carries on from the last good checkpoint."
_BEGUN = ".writing-"


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

    def __init__(self, directory: Path, warn: Callable[[str], None] = print, keep: int = 2) -> None:
        self._directory = directory
        self._keep = keep
        self._warn = warn
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def place(self) -> str:
        """Their directory, for messages."""
        return str(self._directory)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write and publish a checkpoint with one file of tensors."""
        if self._final(step).exists():
            return
        unfinished = self._unfinished(step)
        with self._write_errors(step):
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            with _undone(unfinished):
                _save_tensors(tensors, unfinished / TENSORS)
                self._publish(step, {"step": step, **state}, {"sha256": file_digest(unfinished / TENSORS)})

    def save_shard(
        self, step: int, tensors: Mapping[str, Tensor], parts: Mapping[str, TensorSlice], rank: int, world: int
    ) -> None:
        """Write this worker's shard of a checkpoint, which `publish` completes.

        Args:
            step: number of updates.
            tensors: this worker's tensors; flat slices where `parts` names them, else complete.
            parts: the slice of the complete tensor that each flat tensor holds.
            rank: this worker.
            world: number of workers, and so of shards.
        """
        if self._final(step).exists():
            return
        unfinished, named = self._unfinished(step), shard_name(rank, world)
        own = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
        with self._write_errors(step):
            unfinished.mkdir(exist_ok=True)
            with _undone(unfinished / named):
                _save_tensors(own, unfinished / named)
                describe(
                    unfinished, rank, world, {name: parts.get(name) or TensorSlice.whole(own[name]) for name in own}
                )
                sync(unfinished)

    def publish(self, step: int, state: Mapping[str, Any], world: int) -> None:
        """Publish the checkpoint after all `world` workers have written their shards. Called by one worker."""
        if self._final(step).exists():
            return
        with self._write_errors(step), _undone(self._unfinished(step)):
            shards = collect(self._unfinished(step), world)
            self._publish(step, {"step": step, **state}, {"world": world, "shards": [asdict(each) for each in shards]})

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint. Damaged ones are renamed, with a warning each."""
        for directory in reversed(self._published()):
            try:
                return _read(directory)
            except (OSError, ValueError, KeyError, TypeError) as error:
                aside = self._directory / f"bad-{directory.name}-{os.getpid()}"
                try:
                    directory.rename(aside)
                except FileNotFoundError:  # another worker of this training was quicker
                    continue
                self._warn(f"checkpoint {directory} does not verify ({error}); moved to {aside.name}")
        return None

    def clear(self) -> None:
        """Remove all checkpoints, after the result of the training was published elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _publish(self, step: int, state: Mapping[str, Any], files: Mapping[str, Any]) -> None:
        """Write state.json, which describes the files of tensors, and rename the directory."""
        unfinished = self._unfinished(step)
        _save_state(unfinished, {"state": state, **files})
        unfinished.rename(self._final(step))
        sync(self._directory)
        for old in self._published()[: -self._keep]:
            shutil.rmtree(old)
        for killed in self._directory.glob(f"{_BEGUN}*"):
            shutil.rmtree(killed, ignore_errors=True)

    @contextmanager
    def _write_errors(self, step: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"cannot write a checkpoint: {error.strerror or error}"
            raise OperationalError(what, where=str(self._final(step)), hint=ROOM) from error

    def _published(self) -> list[Path]:
        return sorted(self._directory.glob("step-*"))

    def _final(self, step: int) -> Path:
        return self._directory / f"step-{step:09d}"

    def _unfinished(self, step: int) -> Path:
        return self._directory / f"{_BEGUN}{step:09d}"


@contextmanager
def _undone(path: Path) -> Iterator[None]:
    """Remove an unfinished file or directory after an error, which frees room on a full disk."""
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


def _save_state(directory: Path, described: Mapping[str, Any]) -> None:
    text = json.dumps(described, sort_keys=True)
    envelope = {"payload": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (directory / STATE).write_text(json.dumps(envelope))
    sync(directory / STATE)
    sync(directory)


def _read(directory: Path) -> Checkpoint:
    envelope = json_io.parse_object((directory / STATE).read_bytes())
    text = envelope["payload"]
    if hashlib.sha256(text.encode()).hexdigest() != envelope["sha256"]:
        raise ValueError(f"{STATE} is damaged")
    described = json_io.parse_object(text)
    state = described["state"]
    return Checkpoint(state.pop("step"), _tensors(directory, described), state)


def _tensors(directory: Path, described: Mapping[str, Any]) -> Mapping[str, Tensor]:
    if "shards" in described:
        return ShardedTensors(directory, [Shard.from_json(each) for each in described["shards"]])
    if file_digest(directory / TENSORS) != described["sha256"]:
        raise ValueError(f"{TENSORS} is damaged")
    return load_file(directory / TENSORS)
