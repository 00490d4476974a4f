"""The files of a model's weights in PyTorch's own form, and how much reading them may take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from subgraft.base.limits import CONVERSION_SECONDS
from subgraft.modeling.weights import TORCH_INDEX, TORCH_WEIGHTS, read_index

GIGABYTE = 10**9


def torch_files(directory: Path) -> tuple[Path, ...]:
    """pytorch_model.bin, or the files in its index; none if there is neither.

    Raises UserError for an index that is invalid or refers to anything but .bin files in its folder.
    """
    if (directory / TORCH_WEIGHTS).is_file():
        return (directory / TORCH_WEIGHTS,)
    if not (directory / TORCH_INDEX).is_file():
        return ()
    return tuple(directory / name for name in sorted(set(read_index(directory / TORCH_INDEX).values())))


def largest(files: Sequence[Path]) -> int:
    """The size of the largest file in bytes; 0 if there is none."""
    return max((path.stat().st_size for path in files if path.is_file()), default=0)


def conversion_seconds(files: Sequence[Path]) -> int:
    """The limit of CPU time, in seconds, for reading and writing all files."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return CONVERSION_SECONDS.value * max(1, math.ceil(size / GIGABYTE))
