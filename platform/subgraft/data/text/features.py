"""Features computed by a user's own encoder: a matrix for each segment, in a safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Split
from subgraft.data.text.batches import Selectable
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.tensors import StoredTensor

# The tensor's default name.
FEATURES = "features"
_FLOATING = ("F16", "F32", "F64")


class Features(Selectable[np.ndarray]):
    """A matrix [n, k] for each of N examples, n > 0, as float32; read on access.

    The file has one of the layouts of `StoredTensor`: [N, k] (one row per example), [N, n, k], or n differs between
    examples.

    Args:
        stored: The file.
        chosen: Indices of the selected examples; None for all.
    """

    def __init__(self, stored: StoredTensor, chosen: np.ndarray | None = None) -> None:
        self._stored, self._chosen = stored, chosen

    @classmethod
    def open(cls, path: Path, name: str = FEATURES, examples: int | None = None) -> Features:
        """Open a file. Raises UserError for a malformed file, or if the number of examples differs from `examples`."""
        stored = StoredTensor(path, name)
        if examples is not None and len(stored) != examples:
            what = f"features of {len(stored):,} examples, where there are {examples:,} texts"
            raise UserError(what, where=str(path), hint="There is a text for each example, in their order.")
        for place in range(len(stored) if stored.apart else 1):
            _require_matrix(stored, place)
        return cls(stored)

    @property
    def path(self) -> Path:
        return self._stored.path

    @property
    def width(self) -> int:
        """k, the length of a row."""
        return self._stored.shape()[-1]

    @property
    def counts(self) -> np.ndarray:
        """The number of rows of each example [N]."""
        shape = self._stored.shape()
        rows = self._stored.rows() if self._stored.ragged or len(shape) == 2 else np.full(shape[0], shape[1])
        return rows if self._chosen is None else rows[self._chosen]

    def require_finite(self) -> None:
        """Raises UserError for the first example with NaN or infinity. Reads all examples one by one."""
        for place, rows in enumerate(self):
            if not np.isfinite(rows).all():
                what = f"features of example {place} (counted from 0) contain NaN or infinity"
                raise UserError(what, where=str(self.path))

    def take(self, places: np.ndarray) -> Self:
        return type(self)(self._stored, places if self._chosen is None else self._chosen[places])

    def __len__(self) -> int:
        return len(self._stored) if self._chosen is None else len(self._chosen)

    def _item(self, index: int) -> np.ndarray:
        rows = self._stored[index if self._chosen is None else int(self._chosen[index])]
        with np.errstate(over="ignore"):  # values beyond float32 become infinite, and are reported
            return np.atleast_2d(rows).astype(np.float32)


def feature_field(corpus: Corpus) -> str:
    """The name of the tensor field. Raises UserError for a corpus without one, or with several."""
    names = [field.name for field in corpus.fields if field.kind == "tensor"]
    if len(names) != 1:
        raise UserError(f"it has {len(names)} fields of kind tensor, where one is needed", where=str(corpus.directory))
    return names[0]


def look_through(files: Mapping[Split, Path], split: Split, name: str, examples: int) -> None:
    """Raises UserError unless all features of a split can be read and are as wide as those of the first split.

    Args:
        files: The files of all splits.
    """
    features = Features.open(files[split], name, examples)
    first = next(iter(files))
    if features.width != (width := Features.open(files[first], name).width):
        what = f"rows of {features.width} numbers, where those of the {first} split have {width}"
        raise UserError(what, where=str(files[split]), hint="One encoder makes the features of all splits.")
    features.require_finite()


def features_of(corpus: Corpus, split: str) -> Features:
    """The features of a split's segments."""
    name = feature_field(corpus)
    return Features.open(corpus.file(split, name), name, corpus.size(split))


def _require_matrix(stored: StoredTensor, place: int) -> None:
    """Raises UserError unless an example's tensor is a floating-point matrix as wide as the first example's."""
    shape, dtype, where = stored.shape(place), stored.dtype(place), str(stored.path)
    whose = f"features of example {place} (counted from 0)" if stored.apart else f"'{stored.name}'"
    if dtype not in _FLOATING:
        what = f"{whose} are of type {dtype}, where floating-point numbers are read"
        raise UserError(what, where=where, hint=f"Save them as one of: {', '.join(_FLOATING)}.")
    wanted = (2,) if stored.ragged else (2, 3)
    if len(shape) not in wanted or 0 in shape:
        hint = "Of each example [n, k], any n above 0; of all together [N, n, k], or [N, k] for one row an example."
        raise UserError(f"{whose} are of the shape {list(shape)}", where=where, hint=hint)
    if shape[-1] != (first := stored.shape()[-1]):
        raise UserError(f"{whose} have rows of {shape[-1]} numbers, those of example 0 of {first}", where=where)
