"""Tensor fields: one row a segment, in safetensors files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from subgraft.errors import UserError


def row_count(path: Path, name: str) -> int:
    """How many rows the tensor has. Raises UserError where the file holds no such tensor."""
    try:
        with safe_open(path, framework="numpy") as stored:
            held = list(stored.keys())
            shape: list[int] = stored.get_slice(name).get_shape() if name in held else []
    except FileNotFoundError:
        raise UserError("no such file", where=str(path), hint=f"It is to hold the tensor '{name}'.") from None
    except SafetensorError as error:
        raise UserError(f"no safetensors file: {error}", where=str(path)) from None
    if not shape:
        raise UserError(f"no tensor '{name}' with rows", where=str(path), hint=f"It has: {', '.join(held) or 'none'}.")
    return shape[0]


def read_rows(path: Path, name: str) -> np.ndarray:
    """The tensor [n, …]."""
    with safe_open(path, framework="numpy") as stored:
        tensor: np.ndarray = stored.get_tensor(name)
    return tensor


def write_rows(source: Path, name: str, rows: Sequence[int], out: Path) -> None:
    """Write these rows of a tensor to a file of their own."""
    save_file({name: np.ascontiguousarray(read_rows(source, name)[np.asarray(rows, dtype=np.int64)])}, out)
