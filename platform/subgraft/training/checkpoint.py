"""Checkpoints that survive a kill: written beside, synced, renamed; verified on reading, the bad ones set aside."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft import jsontext
from subgraft.errors import OperationalError
from subgraft.files import file_digest, sync

TENSORS = "tensors.safetensors"
STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and a JSON state, as they were at `step`."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The last checkpoints of one training, in one directory; the newest good one is what a rerun starts from."""

    def __init__(self, directory: Path, warn: Callable[[str], None] = print, keep: int = 2) -> None:
        self._directory = directory
        self._keep = keep
        self._warn = warn
        directory.mkdir(parents=True, exist_ok=True)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Publish a checkpoint; until the rename it does not exist. Raises OperationalError where the disk is full."""
        final = self._directory / f"step-{step:09d}"
        if final.exists():
            return
        temporary = self._directory / f".writing-{step:09d}"
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            _write(temporary, tensors, {"step": step, **state})
            temporary.rename(final)
            sync(self._directory)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise OperationalError(
                f"cannot write a checkpoint: {error.strerror or error}",
                where=str(final),
                hint="Make room and run the same command again: it carries on from the last good checkpoint.",
            ) from error
        for old in self._published()[: -self._keep]:
            shutil.rmtree(old)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that verifies; those that do not are moved aside and named in one line each."""
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
        """Remove everything: the training's result is published elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _published(self) -> list[Path]:
        return sorted(self._directory.glob("step-*"))


def _write(directory: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, directory / TENSORS)
    except Exception as error:  # safetensors wraps the operating system's errors in its own
        raise OSError(str(error)) from error
    described = {"state": state, "sha256": file_digest(directory / TENSORS)}
    text = json.dumps(described, sort_keys=True)
    envelope = {"payload": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (directory / STATE).write_text(json.dumps(envelope))
    for name in (TENSORS, STATE):
        sync(directory / name)
    sync(directory)


def _read(directory: Path) -> Checkpoint:
    envelope = jsontext.parse_object((directory / STATE).read_bytes())
    text = envelope["payload"]
    if hashlib.sha256(text.encode()).hexdigest() != envelope["sha256"]:
        raise ValueError(f"{STATE} is damaged")
    described = jsontext.parse_object(text)
    if file_digest(directory / TENSORS) != described["sha256"]:
        raise ValueError(f"{TENSORS} is damaged")
    state = described["state"]
    return Checkpoint(state.pop("step"), load_file(directory / TENSORS), state)
