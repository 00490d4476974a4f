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
        selected: Indices of the selected examples; None for all.
    """

    def __init__(self, stored: StoredTensor, selected: np.ndarray | None = None) -> None:
        self._stored, self._selected = stored, selected

    @classmethod
    def open(cls, path: Path, name: str = FEATURES, examples: int | None = None) -> Features:
        """Open a file. Raises UserError for a malformed file, or if the number of examples differs from `examples`."""
        stored = StoredTensor(path, name)
        if examples is not None and len(stored) != examples:
            what = f"features of {len(stored):,} examples, but {examples:,} texts"
            raise UserError(what, where=str(path), hint="There must be one text for each example, in the same order.")
        for index in range(len(stored) if stored.separate else 1):
            _require_matrix(stored, index)
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
        return rows if self._selected is None else rows[self._selected]

    def require_finite(self) -> None:
        """Raises UserError for the first example with NaN or infinity. Reads all examples one by one."""
        for index, rows in enumerate(self):
            if not np.isfinite(rows).all():
                what = f"features of example {index} (counted from 0) contain NaN or infinity"
                raise UserError(what, where=str(self.path))

    def take(self, places: np.ndarray) -> Self:
        return type(self)(self._stored, places if self._selected is None else self._selected[places])

    def __len__(self) -> int:
        return len(self._stored) if self._selected is None else len(self._selected)

    def _item(self, index: int) -> np.ndarray:
        rows = self._stored[index if self._selected is None else int(self._selected[index])]
        with np.errstate(over="ignore"):  # values beyond float32 become infinite; `require_finite` reports them
            return np.atleast_2d(rows).astype(np.float32)


def feature_field(corpus: Corpus) -> str:
    """The name of the tensor field. Raises UserError for a corpus without one, or with several."""
    names = [field.name for field in corpus.fields if field.kind == "tensor"]
    if len(names) != 1:
        raise UserError(f"it has {len(names)} fields of kind tensor, where one is needed", where=str(corpus.directory))
    return names[0]


def validate_features(files: Mapping[Split, Path], split: Split, name: str, examples: int) -> None:
    """Raises UserError unless all features of a split can be read and are as wide as those of the first split.

    Args:
        files: The files of all splits.
        split: The split to validate.
        name: The name of the tensor.
        examples: The number of examples of the split.
    """
    features = Features.open(files[split], name, examples)
    first = next(iter(files))
    if features.width != (width := Features.open(files[first], name).width):
        what = f"rows of {features.width} numbers, but rows of the {first} split have {width}"
        raise UserError(what, where=str(files[split]), hint="The features of all splits must come from one encoder.")
    features.require_finite()


def features_of(corpus: Corpus, split: str) -> Features:
    """The features of a split's segments."""
    name = feature_field(corpus)
    return Features.open(corpus.file(split, name), name, corpus.size(split))


def _require_matrix(stored: StoredTensor, index: int) -> None:
    """Raises UserError unless an example's tensor is a floating-point matrix as wide as the first example's."""
    shape, dtype, where = stored.shape(index), stored.dtype(index), str(stored.path)
    subject = f"features of example {index} (counted from 0)" if stored.separate else f"'{stored.name}'"
    if dtype not in _FLOATING:
        what = f"{subject} are of type {dtype}, where floating-point numbers are expected"
        raise UserError(what, where=where, hint=f"Save them as one of: {', '.join(_FLOATING)}.")
    allowed_ranks = (2,) if stored.ragged else (2, 3)
    if len(shape) not in allowed_ranks or 0 in shape:
        hint = (
            "Give [n, k] with n above 0 for each example, or for all examples [N, n, k], or [N, k] if each has one row."
        )
        raise UserError(f"{subject} are of the shape {list(shape)}", where=where, hint=hint)
    if shape[-1] != (first := stored.shape()[-1]):
        raise UserError(f"{subject} have rows of {shape[-1]} numbers, those of example 0 of {first}", where=where)
