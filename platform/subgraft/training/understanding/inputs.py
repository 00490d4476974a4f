"""Encodes texts as the rows that a model with a head reads, and collates rows into batches."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.data.text.encoded import encode
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import NO_ENTITY, InputLayout, LaidOut, family_of
from subgraft.modeling.families.heads import OWN_HEAD, kind_of_class, longest_input
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import PaddedBatch, pad, pad_with_mask


class Row(NamedTuple):
    """One input of the model.

    Attributes:
        tokens: int32 [T].
        second: the position where the second text starts; T if there is only one text.
        characters: the number of characters of its texts.
        truncated: whether a text is truncated.
        entities: pairs of a token's position and the entity that the model reads there.
        own: the number of tokens at the end that are a third segment.
    """

    tokens: np.ndarray
    second: int
    characters: int
    truncated: bool = False
    entities: tuple[tuple[int, int], ...] = ()
    own: int = 0

    @classmethod
    def of(cls, laid: LaidOut, characters: int, truncated: bool = False) -> Row:
        second = (*laid.starts, len(laid.ids))[1]
        return cls(np.array(laid.ids, dtype=np.int32), second, characters, truncated, own=laid.types.count(2))

    @property
    def types(self) -> np.ndarray:
        """The text of each token [T], 0 or 1; 2 for tokens that are a third segment."""
        positions, size = np.arange(len(self.tokens)), len(self.tokens)
        return np.where(positions >= size - self.own, 2, positions >= self.second).astype(np.int32)


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """An example: one row, or one for each candidate, and the target, whose type its task defines, if it is known."""

    rows: tuple[Row, ...]
    target: Any = None

    def cost(self, unit: Literal["tokens", "characters"] = "tokens") -> int:
        """Its cost in a batch: all rows are as long as the longest."""
        in_characters = unit == "characters"
        return len(self.rows) * max(row.characters + 1 if in_characters else len(row.tokens) for row in self.rows)


@dataclass(frozen=True)
class LabelledBatch(PaddedBatch):
    """Padded rows, example after example.

    Attributes:
        input_ids, attention_mask, token_type_ids: [R, T].
        entity_ids: the entity of each token, or NO_ENTITY [R, T].
        labels: the targets, in a shape that the task defines.
        rows: the number of rows of each example [B].
        counted: the number of predictions that the loss sums over, a scalar.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    entity_ids: Tensor
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
    entities = torch.full_like(tokens, NO_ENTITY)
    for number, row in enumerate(rows):
        for position, entity in row.entities:
            entities[number, position] = entity
    sizes = torch.tensor([len(example.rows) for example in examples])
    return LabelledBatch(tokens, mask, types, entities, labels, sizes, torch.tensor(counted))


@dataclass(frozen=True)
class TextEncoder:
    """Encodes texts as rows.

    Attributes:
        tokenizer: The tokenizer of the texts.
        layout: The special tokens around them.
        longest: The maximum length of a row in tokens.
        padding: The padding id.
        entities: The ids of the entities that the model reads, by name.
    """

    tokenizer: Tokenizer
    layout: InputLayout
    longest: int
    padding: int
    entities: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Bundle, languages: Languages | None, longest: int | None = None) -> TextEncoder:
        """The encoder of a model. longest: a limit below the model's; by default that of its finetuning, if any."""
        longest_known = longest or longest_input(bundle.model.config.to_dict()) or bundle.max_positions
        limit = min(longest_known, bundle.max_positions)
        configured = bundle.model.config.pad_token_id
        padding = bundle.padding[0] if configured is None else configured
        entities = family_of(bundle.model).entity_ids(bundle.model)
        return cls(bundle.encoder, bundle.input_layout(languages), limit, padding, entities)

    @property
    def reads_forwards(self) -> bool:
        """Whether a token's state depends only on earlier tokens, as in a decoder-only model."""
        return not self.layout.end

    def singles(self, texts: Sequence[str]) -> Iterator[Row]:
        """The row of each text."""
        encoded = encode(texts, self.tokenizer)
        for index, characters in enumerate(encoded.characters.tolist()):
            yield self.single(encoded.sequences[index], characters)

    def single(self, ids: Sequence[int], characters: int) -> Row:
        """The row of a text's tokens."""
        laid = self.layout.single(ids, self.longest)
        return Row.of(laid, characters, laid.lengths != (len(ids),))

    def pairs(self, firsts: Sequence[str], seconds: Sequence[str]) -> Iterator[Row]:
        """The row of each pair of texts."""
        encoded = encode(firsts, self.tokenizer), encode(seconds, self.tokenizer)
        for index, characters in enumerate((encoded[0].characters + encoded[1].characters).tolist()):
            first, second = (side.sequences[index] for side in encoded)
            laid = self.layout.pair(first, second, self.longest)
            yield Row.of(laid, characters, laid.lengths != (len(first), len(second)))

    def rows(self, inputs: Sequence[str | tuple[str, str]]) -> Iterator[Row]:
        """The row of each text or pair of texts."""
        singles = self.singles([each for each in inputs if isinstance(each, str)])
        firsts, seconds = ([each[side] for each in inputs if not isinstance(each, str)] for side in (0, 1))
        pairs = self.pairs(firsts, seconds)
        return (next(singles if isinstance(each, str) else pairs) for each in inputs)

    def with_ends(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each text, and the end of each token in the text, in characters from 0, never decreasing."""
        for chunk in chunks(texts):
            for text, (ids, ends) in zip(chunk, self.tokenizer.encode_with_ends(chunk), strict=True):
                yield ids, _with_accents(text, list(accumulate(ends, max, initial=0))[1:])

    def with_words(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each text, and the number of the word of each; words are separated by single spaces."""
        for chunk in chunks(texts):
            yield from self.tokenizer.encode_with_words(chunk)


def _with_accents(text: str, ends: list[int]) -> list[int]:
    """Move token ends after combining accents, which normalizers may have removed from the text that they encode."""
    if unicodedata.is_normalized("NFC", text):
        return ends
    after = list(range(len(text) + 1))
    for position in range(len(text) - 1, -1, -1):
        if unicodedata.combining(text[position]):
            after[position] = after[position + 1]
    return [after[end] for end in ends]


def model_inputs(model: PreTrainedModel, batch: LabelledBatch) -> dict[str, Tensor]:
    """The arguments of the model's forward pass for a batch."""
    family, kind = family_of(model), kind_of_class(type(model).__name__)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if family.has_segments(vars(model.config)):
        inputs["token_type_ids"] = batch.token_type_ids
    if getattr(model.config, "entity_count", 0):
        inputs["entity_ids"] = batch.entity_ids
    if getattr(model.config, OWN_HEAD, None) is not None:
        inputs["segments"] = batch.token_type_ids
    if family.pads_left and kind in ("sequence", "choice"):
        # The padding of rows [R, T] moves from the right to the left.
        positions = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
        positions = (positions + batch.attention_mask.sum(dim=1, keepdim=True)) % len(positions)
        return {name: rows.gather(1, positions) for name, rows in inputs.items()}
    return inputs


def costs_of(
    examples: Sequence[LabelledExample], unit: Literal["tokens", "characters"] = "tokens"
) -> NDArray[np.int64]:
    """The cost of each example in a batch [n]."""
    return np.array([example.cost(unit) for example in examples], dtype=np.int64)
