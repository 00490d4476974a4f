"""Sources of conditioned models (text, classes or features): read from a corpus, and encoded as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import ArgumentError, UserError
from subgraft.data.text.corpus import Corpus, class_labels
from subgraft.data.text.encoded import encode
from subgraft.data.text.features import Features, features_of
from subgraft.data.text.segments import Text
from subgraft.modeling.conditioning.settings import SourceName
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

Value_contra = TypeVar("Value_contra", contravariant=True)


class Source(Protocol[Value_contra]):
    """Encodes sources as arrays that a `SourceEncoder` reads."""

    def encode(self, values: Sequence[Value_contra]) -> Sequence[np.ndarray]:
        """The rows of each value: ids [n] or features [n, k]. Raises UserError for an invalid value."""
        ...


class TextSource:
    """Text as token ids, followed by the end token if the vocabulary has one.

    Args:
        tokenizer: The tokenizer of the source.
        max_length: The maximum number of tokens including special ones; longer texts are truncated.
        around: Ids before and after each text, instead of the end token.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        around: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        end = tokenizer.special.get("eos")
        self._beginning, self._ending = around or ((), () if end is None else (end,))
        self._around = len(self._beginning) + len(self._ending)
        self._room = None if max_length is None else max(0, max_length - self._around)

    def encode(self, values: Sequence[str]) -> Sequence[np.ndarray]:
        sequences = encode(values, self.tokenizer).sequences
        truncated = sequences if self._room is None else sequences.truncate(self._room)

        def encode_one(index: int) -> np.ndarray:
            return np.array([*self._beginning, *truncated[index], *self._ending], dtype=np.int64)

        return EncodedSources(truncated.lengths + self._around, encode_one)


class ClassSource:
    """A class, by its label."""

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
    """Feature rows [n, k] of an example, n > 0. features: k. rows: the maximum n that the model accepts."""

    def __init__(self, features: int, rows: int | None = None) -> None:
        self.features, self.rows = features, rows

    def encode(self, values: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The validated features; those in a file are read on access."""
        if not isinstance(values, Features):
            for index, rows in enumerate(values):
                if not isinstance(rows, np.ndarray):
                    hint = "Give matrices, or a safetensors file of them (`features`)."
                    raise ArgumentError("this model reads features, not text", hint=hint)
                self._check_shape(index, rows.shape)
                if not np.isfinite(rows).all():
                    raise UserError(f"features of example {index} contain NaN or infinity")
            return [rows.astype(np.float32) for rows in values]
        if len(values):
            longest = int(np.argmax(values.counts))
            try:
                self._check_shape(longest, (int(values.counts[longest]), values.width))
            except UserError as error:
                raise UserError(error.what, where=str(values.path), hint=error.hint) from None
        return values

    def _check_shape(self, index: int, shape: tuple[int, ...]) -> None:
        fits = len(shape) == 2 and shape[1] == self.features and 0 < shape[0] <= (self.rows or shape[0])
        if not fits:
            message = f"features of example {index} (counted from 0) are of the shape {list(shape)}"
            row_limit = "any n above 0" if self.rows is None else f"n from 1 to {self.rows}"
            raise UserError(message, hint=f"The model reads [n, {self.features}], {row_limit}.")


class NoSource:
    """Encodes any value as an empty array, for a language model without a source."""

    def encode(self, values: Sequence[object]) -> Sequence[np.ndarray]:
        return EncodedSources(np.zeros(len(values), dtype=np.int64), lambda place: np.zeros(0, dtype=np.int64))


class EncodedSources(Sequence[np.ndarray]):
    """Arrays that are created on access. counts: the number of rows of each [n]."""

    def __init__(self, counts: np.ndarray, make: Callable[[int], np.ndarray]) -> None:
        self.counts, self._make = counts, make

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self._make(index) for index in range(len(self))[index]]
        return self._make(range(len(self))[index])


def row_counts(encoded: Sequence[np.ndarray]) -> np.ndarray:
    """The number of rows of each encoded source [n]."""
    return (
        encoded.counts if isinstance(encoded, EncodedSources | Features) else np.array([len(rows) for rows in encoded])
    )


def pad_sources(encoded: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Encoded sources as one tensor [B, S] or [B, S, k], padded with zeros at the end, and its mask [B, S]."""
    rows = list(encoded)
    longest = max(map(len, rows))
    inputs = np.zeros((len(rows), longest, *rows[0].shape[1:]), dtype=rows[0].dtype)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for row, values in enumerate(rows):
        inputs[row, : len(values)], mask[row, : len(values)] = values, 1
    return torch.from_numpy(inputs), torch.from_numpy(mask)


@dataclass(frozen=True)
class Sourced:
    """Segments of a split: `texts`, and the source of each: a label, a text or rows of features."""

    texts: Text
    sources: Sequence[Any]

    @classmethod
    def of(cls, corpus: Corpus, split: str, source: SourceName) -> Sourced:
        """Raises UserError where the corpus has no such sources."""
        texts = corpus.text(split, corpus.text_of("decoder"))
        if source == "class":
            return cls(texts, list(corpus.lines(split, class_labels(corpus).field)))
        return cls(texts, corpus.text(split, "source") if source == "text" else features_of(corpus, split))

    def first(self, count: int | None) -> Sourced:
        return self if count is None or count >= len(self.texts) else self.take(np.arange(count))

    def shuffled(self, seed: int) -> Sourced:
        """The same texts, each with the source of a random other one."""
        return Sourced(self.texts, self.take(np.random.default_rng(seed).permutation(len(self.texts))).sources)

    def costs(self) -> np.ndarray | None:
        """The cost of each source [n] in a batch whose size is counted in characters.

        The characters of a text, or the rows of features; None for classes, which cost nothing. A source counts even
        if the model does not read it.
        """
        if isinstance(self.sources, Features):
            return self.sources.counts
        return np.array([len(text) + 1 for text in self.sources]) if isinstance(self.sources, Text) else None

    def turned(self, by: int) -> Sourced:
        """The same segments, rotated by this number of positions."""
        return self.take(np.roll(np.arange(len(self.texts)), -by))

    def in_words(self) -> list[str]:
        """Each source as a line of text, for reports."""
        if isinstance(self.sources, Features):
            counts = enumerate(self.sources.counts.tolist())
            return [f"features of example {place}: {count} rows of {self.sources.width}" for place, count in counts]
        return list(self.sources)

    def take(self, places: np.ndarray) -> Sourced:
        """The segments with these indices [n], in this order."""
        if isinstance(self.sources, Text | Features):
            return Sourced(self.texts.take(places), self.sources.take(places))
        return Sourced(self.texts.take(places), [self.sources[place] for place in places.tolist()])
