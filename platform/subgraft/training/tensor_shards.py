"""Tensors divided among workers: the slice of each worker, and mappings that put complete tensors together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


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


class Divided(Protocol):
    """A worker that holds slices of some tensors."""

    device: torch.device

    def part(self, name: str) -> TensorSlice | None:
        """The slice of a tensor that it holds; None if every worker holds the complete tensor."""
        ...


class Gathered(Mapping[str, Tensor]):
    """Complete tensors of slices that are divided among the workers.

    An access gathers the tensor, so all workers must access the same names in the same order.
    """

    def __init__(self, tensors: Mapping[str, Tensor], worker: Divided) -> None:
        """tensors: this worker's."""
        self._tensors, self._worker = tensors, worker

    def __getitem__(self, name: str) -> Tensor:
        own, part = self._tensors[name], self._worker.part(name)
        if part is None:
            return own
        # Zeros elsewhere, added up as integers: every bit stays as it is.
        whole = torch.zeros(part.numel, dtype=own.dtype, device=self._worker.device)
        whole[part.start : part.stop] = own
        dist.all_reduce(whole.view(torch.int32))
        return whole.reshape(part.shape)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class Selected(Mapping[str, Tensor]):
    """The tensors whose names start with a prefix, by the rest of their names; read on access."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._tensors

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._tensors if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
