"""Texts as the rows that a model with a head reads, and rows as batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import InputLayout
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.objective import PaddedBatch, pad, pad_with_mask


class Row(NamedTuple):
    """One input of the model.

    types: 1 for tokens of a second text where the model has segments.  cut: whether a text lacks its end.
    """

    tokens: list[int]
    types: list[int]
    cut: bool = False


@dataclass(frozen=True)
class LabelledExample:
    """An example: one row, or one for each candidate; and the target, of a type that its task defines, if known."""

    rows: tuple[Row, ...]
    target: Any = None

    @property
    def length(self) -> int:
        """Its cost in a batch: all rows are as long as the longest."""
        return len(self.rows) * max(len(row.tokens) for row in self.rows)


@dataclass(frozen=True)
class LabelledBatch(PaddedBatch):
    """Padded rows, example after example.

    input_ids, attention_mask, token_type_ids: [R, T].  labels: of a shape that the task defines.  rows: how many rows
    each example has [B].  counted: how many predictions the loss is a sum over [].
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    labels: Tensor
    rows: Tensor
    counted: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": int(self.counted)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.input_ids), self.input_ids.shape[1]


def collate(examples: Sequence[LabelledExample], padding: int, labels: Tensor, counted: int) -> LabelledBatch:
    """Pad the rows of examples on the right."""
    rows = [row for example in examples for row in example.rows]
    tokens, mask = pad_with_mask([row.tokens for row in rows], padding)
    types = pad([row.types for row in rows], 0)
    sizes = torch.tensor([len(example.rows) for example in examples])
    return LabelledBatch(tokens, mask, types, labels, sizes, torch.tensor(counted))


@dataclass(frozen=True)
class TextEncoder:
    """How texts become rows.

    Attributes:
        tokenizer: Of the texts.
        layout: The special tokens around them.
        longest: A row's limit in tokens.
        padding: The id that pads rows.
    """

    tokenizer: Tokenizer
    layout: InputLayout
    longest: int
    padding: int

    @classmethod
    def of(cls, bundle: Bundle, languages: Languages | None, longest: int | None = None) -> TextEncoder:
        """longest: a limit below the model's own."""
        limit = min(longest or bundle.max_positions, bundle.max_positions)
        configured = bundle.model.config.pad_token_id
        padding = bundle.padding[0] if configured is None else configured
        return cls(bundle.encoder, bundle.input_layout(languages), limit, padding)

    def singles(self, texts: Sequence[str]) -> Iterator[Row]:
        """The row of each text."""
        for ids in self.tokenizer.encode_batch(texts):
            laid = self.layout.single(ids, self.longest)
            yield Row(laid.ids, laid.types, laid.lengths != (len(ids),))

    def pairs(self, firsts: Sequence[str], seconds: Sequence[str]) -> Iterator[Row]:
        """The row of each pair of texts."""
        encoded = self.tokenizer.encode_batch(firsts), self.tokenizer.encode_batch(seconds)
        for first, second in zip(*encoded, strict=True):
            laid = self.layout.pair(first, second, self.longest)
            yield Row(laid.ids, laid.types, laid.lengths != (len(first), len(second)))

    def rows(self, inputs: Sequence[str | tuple[str, str]]) -> Iterator[Row]:
        """The row of each text or pair of texts."""
        singles = self.singles([each for each in inputs if isinstance(each, str)])
        firsts, seconds = ([each[at] for each in inputs if not isinstance(each, str)] for at in (0, 1))
        pairs = self.pairs(firsts, seconds)
        return (next(singles if isinstance(each, str) else pairs) for each in inputs)

    def with_ends(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """The tokens of each text, and where each ends in it, in characters, never falling."""
        return [(ids, list(accumulate(ends, max))) for ids, ends in self.tokenizer.encode_with_ends(texts)]


def model_inputs(model: PreTrainedModel, batch: LabelledBatch) -> dict[str, Tensor]:
    """The arguments that the model's forward takes of a batch."""
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = batch.token_type_ids
    return inputs


def lengths_of(examples: Sequence[LabelledExample]) -> np.ndarray:
    """The cost of each example in a batch [n]."""
    return np.array([example.length for example in examples], dtype=np.int64)
