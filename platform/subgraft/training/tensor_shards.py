"""Tensors divided among workers: slices, mappings that reassemble complete tensors, and the shards of checkpoints.

A sharded checkpoint has one file for the slices of each worker, and one index.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor

from subgraft.base import json_io
from subgraft.base.files import file_digest, sync


@dataclass(frozen=True)
class Shard:
    """A file with its SHA-256, its size in bytes, and the slice of each tensor that it holds."""

    file: str
    sha256: str
    size: int
    parts: Mapping[str, TensorSlice]

    @classmethod
    def of_file(cls, file: Path, parts: Mapping[str, TensorSlice]) -> Shard:
        return cls(file.name, file_digest(file), file.stat().st_size, parts)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Shard:
        parts = {
            name: TensorSlice(part["start"], part["stop"], tuple(part["shape"]))
            for name, part in record["parts"].items()
        }
        return cls(record["file"], record["sha256"], record["size"], parts)

    def verify(self, directory: Path) -> None:
        """Raises ValueError if the file does not match its size and digest."""
        file = directory / self.file
        if Path(self.file).name != self.file:
            raise ValueError(f"{self.file} is not a file of this checkpoint")
        if file.stat().st_size != self.size or file_digest(file) != self.sha256:
            raise ValueError(f"{self.file} is damaged")


def shard_name(rank: int, world: int) -> str:
    return f"shard-{rank:05d}-of-{world:05d}.safetensors"


def write_index_entry(directory: Path, rank: int, world: int, parts: Mapping[str, TensorSlice]) -> None:
    """Write the index entry of a complete shard to a JSON file next to the shard."""
    file = directory / shard_name(rank, world)
    description = file.with_suffix(".json")
    description.write_text(json.dumps(asdict(Shard.of_file(file, parts))))
    sync(description)


def collect_index(directory: Path, world: int) -> list[Shard]:
    """Read the index entries of all workers, and delete files that interrupted writes have left behind."""
    shards, descriptions = [], []
    for rank in range(world):
        description = (directory / shard_name(rank, world)).with_suffix(".json")
        shards.append(Shard.from_json(json_io.parse_object(description.read_bytes())))
        descriptions.append(description)
    shard_files = {shard.file for shard in shards}
    for path in directory.iterdir():
        if path.name not in shard_files:
            path.unlink()
    return shards


class LazyTensors(Mapping[str, Tensor]):
    """A mapping with known names whose tensors are read or computed on access."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)

    def __contains__(self, name: object) -> bool:  # without reading the tensor
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class ShardedTensors(LazyTensors):
    """Complete tensors, each reassembled from the shards on access, so that only one at a time is in memory."""

    def __init__(self, directory: Path, shards: Sequence[Shard]) -> None:
        """Raises ValueError if a shard is damaged or the slices do not cover every tensor exactly once."""
        self._files: dict[str, Any] = {}
        self._pieces: dict[str, list[tuple[str, TensorSlice]]] = {}
        for shard in shards:
            shard.verify(directory)
            self._files[shard.file] = safe_open(directory / shard.file, framework="pt")
            for name, part in shard.parts.items():
                self._pieces.setdefault(name, []).append((shard.file, part))
        for name, pieces in self._pieces.items():
            parts = sorted((part for _, part in pieces), key=lambda part: part.start)
            edges = [0, *(part.stop for part in parts)]
            if [part.start for part in parts] != edges[:-1] or {part.numel for part in parts} != {edges[-1]}:
                raise ValueError(f"its shards do not cover {name}")
        super().__init__(self._pieces)

    def __getitem__(self, name: str) -> Tensor:
        (file, first), *others = self._pieces[name]
        tensor: Tensor = self._files[file].get_tensor(name)
        if not others:
            return tensor.reshape(first.shape)
        whole = torch.empty(first.numel, dtype=tensor.dtype)
        first.of(whole).copy_(tensor.reshape(-1))
        for file, part in others:
            part.of(whole).copy_(self._files[file].get_tensor(name).reshape(-1))
        return whole.reshape(first.shape)


@dataclass(frozen=True)
class TensorSlice:
    """The elements [start, stop) of a flattened tensor of `shape`; empty if both are equal."""

    start: int
    stop: int
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, tensor: Tensor) -> TensorSlice:
        return cls(0, tensor.numel(), tuple(tensor.shape))

    @property
    def numel(self) -> int:
        """The number of elements of the complete tensor."""
        return math.prod(self.shape)

    def of(self, tensor: Tensor) -> Tensor:
        """This slice of the complete tensor, as a flat view."""
        return tensor.reshape(-1)[self.start : self.stop]


class ShardHolder(Protocol):
    """A worker that may hold only a slice of a tensor."""

    device: torch.device

    def part(self, name: str) -> TensorSlice | None:
        """The slice of a tensor that it holds; None if every worker holds the complete tensor."""
        ...


class GatheredTensors(LazyTensors):
    """Complete tensors of slices that are divided among the workers.

    An access gathers the tensor, so all workers must access the same names in the same order.
    """

    def __init__(self, tensors: Mapping[str, Tensor], worker: ShardHolder) -> None:
        """tensors: the tensors and slices of this worker."""
        super().__init__(tensors)
        self._tensors, self._worker = tensors, worker

    def __getitem__(self, name: str) -> Tensor:
        own, part = self._tensors[name], self._worker.part(name)
        if part is None:
            return own
        # The sum is over integers, and all workers but one add zeros, so every bit is preserved.
        whole = torch.zeros(part.numel, dtype=own.dtype, device=self._worker.device)
        whole[part.start : part.stop] = own
        dist.all_reduce(whole.view(torch.int32))
        return whole.reshape(part.shape)


class PrefixedTensors(LazyTensors):
    """The tensors whose names start with a prefix, by the rest of their names; read on access."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        super().__init__(name.removeprefix(prefix) for name in tensors if name.startswith(prefix))
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]
