"""What a model is conditioned on, beside the tokenizer of what it writes: text, a class, or features of anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from subgraft.errors import UserError
from subgraft.text.tensors import read_rows, row_count
from subgraft.vocabulary.tokenizer import Tokenizer

Value_contra = TypeVar("Value_contra", contravariant=True)
# Of a features file: the tensor, and how many rows each example has of it where not all have the same number.
FEATURES, ROWS = "features", "rows"


class Source(Protocol[Value_contra]):
    """Examples' sources as tensors that a `SourceEncoder` reads."""

    def encode(self, values: Sequence[Value_contra]) -> list[np.ndarray]:
        """Of each value, its rows: ids [n], or features [n, k]. Raises UserError for a value that is none."""
        ...


class TextSource:
    """Text as ids of its tokenizer, with the end behind it where the vocabulary has one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        end = tokenizer.special.get("eos")
        self._ending = [] if end is None else [end]

    def encode(self, values: Sequence[str]) -> list[np.ndarray]:
        return [np.array([*tokens, *self._ending], dtype=np.int64) for tokens in self._tokenizer.encode_batch(values)]


class ClassSource:
    """One of some classes, by its label."""

    def __init__(self, classes: Sequence[str]) -> None:
        if len(set(classes)) != len(classes):
            raise UserError("a class is named twice", hint=f"There is: {', '.join(classes)}.")
        self.classes = tuple(classes)
        self._ids = {label: number for number, label in enumerate(self.classes)}

    def encode(self, values: Sequence[str]) -> list[np.ndarray]:
        unknown = next((label for label in values if label not in self._ids), None)
        if unknown is not None:
            raise UserError(f"unknown class {unknown!r:.60}", hint=f"Known: {', '.join(self.classes)}.")
        return [np.array([self._ids[label]], dtype=np.int64) for label in values]


class FeatureSource:
    """Feature rows [n, k] of an example, any n above 0. features: k."""

    def __init__(self, features: int) -> None:
        self.features = features

    def encode(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        for place, rows in enumerate(values):
            if rows.ndim != 2 or rows.shape[1] != self.features or not len(rows):
                what = f"features of example {place} are of the shape {list(rows.shape)}"
                raise UserError(what, hint=f"The model reads [n, {self.features}], any n above 0.")
            if not np.isfinite(rows).all():
                raise UserError(f"features of example {place} hold what is no number, or is infinite")
        return [rows.astype(np.float32) for rows in values]


def padded(encoded: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Encoded sources as one tensor [B, S] or [B, S, k] with zeros behind each, and its mask [B, S].

    Zero is any row at all: what the mask hides is read by nobody.
    """
    longest = max(map(len, encoded))
    inputs = np.zeros((len(encoded), longest, *encoded[0].shape[1:]), dtype=encoded[0].dtype)
    mask = np.zeros((len(encoded), longest), dtype=np.int64)
    for place, rows in enumerate(encoded):
        inputs[place, : len(rows)], mask[place, : len(rows)] = rows, 1
    return torch.from_numpy(inputs), torch.from_numpy(mask)


def read_features(path: Path, examples: int | None = None) -> list[np.ndarray]:
    """The features of each example [n, k], from a safetensors file of one split.

    Its tensor `features` is [N, n, k] or [N, k], of N examples; or [M, k] of all their rows one after another, with a
    tensor `rows` [N] that says how many each has. examples: how many there must be. Raises UserError for another file.
    """
    row_count(path, FEATURES)
    tensor = read_rows(path, FEATURES)
    if not np.issubdtype(tensor.dtype, np.floating):
        raise UserError(f"'{FEATURES}' holds {tensor.dtype}, where floating-point numbers are read", where=str(path))
    found = _ragged(path, tensor) if _has_rows(path) else _regular(path, tensor)
    if examples is not None and len(found) != examples:
        raise UserError(f"features of {len(found)} examples, where there are {examples}", where=str(path))
    broken = next((place for place, rows in enumerate(found) if not np.isfinite(rows).all()), None)
    if broken is not None:
        raise UserError(f"features of example {broken} hold what is no number, or is infinite", where=str(path))
    return found


def _has_rows(path: Path) -> bool:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            return ROWS in stored.keys()  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"no safetensors file: {error}", where=str(path)) from None


def _regular(path: Path, tensor: np.ndarray) -> list[np.ndarray]:
    if tensor.ndim not in (2, 3) or 0 in tensor.shape:
        hint = "It is to be [N, n, k], or [N, k] for one row an example."
        raise UserError(f"'{FEATURES}' is of the shape {list(tensor.shape)}", where=str(path), hint=hint)
    return list(tensor if tensor.ndim == 3 else tensor[:, None])


def _ragged(path: Path, tensor: np.ndarray) -> list[np.ndarray]:
    counts = read_rows(path, ROWS)
    whole = counts.ndim == 1 and np.issubdtype(counts.dtype, np.integer) and (counts > 0).all()
    if tensor.ndim != 2 or not whole or counts.sum() != len(tensor):
        hint = f"'{ROWS}' [N] says how many rows of '{FEATURES}' [M, k] each example has: at least 1, M together."
        raise UserError(f"'{ROWS}' and '{FEATURES}' do not fit each other", where=str(path), hint=hint)
    return np.split(tensor, np.cumsum(counts)[:-1])
