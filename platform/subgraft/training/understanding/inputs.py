"""Texts as the rows that a model with a head reads, and rows as batches."""

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
from subgraft.modeling.entities import NO_ENTITY, EntityTable
from subgraft.modeling.families import InputLayout, LaidOut, family_of
from subgraft.modeling.families.heads import OWN_HEAD, kind_of_class, longest_input
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.objective import PaddedBatch, pad, pad_with_mask


class Row(NamedTuple):
    """One input of the model.

    Attributes:
        tokens: int32 [T].
        second: where a second text begins; T where there is one text.
        characters: of its texts.
        cut: whether a text lacks its end.
        entities: the places of tokens that a model reads with an entity, and these.
        own: how many of the last tokens are a third segment.
    """

    tokens: np.ndarray
    second: int
    characters: int
    cut: bool = False
    entities: tuple[tuple[int, int], ...] = ()
    own: int = 0

    @classmethod
    def of(cls, laid: LaidOut, characters: int, cut: bool = False) -> Row:
        second = (*laid.starts, len(laid.ids))[1]
        return cls(np.array(laid.ids, dtype=np.int32), second, characters, cut, own=laid.types.count(2))

    @property
    def types(self) -> np.ndarray:
        """The text of each token [T], 0 or 1; 2 for tokens that are a third segment."""
        places, size = np.arange(len(self.tokens)), len(self.tokens)
        return np.where(places >= size - self.own, 2, places >= self.second).astype(np.int32)


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """An example: one row, or one for each candidate; and the target, of a type that its task defines, if known."""

    rows: tuple[Row, ...]
    target: Any = None

    def cost(self, unit: Literal["tokens", "characters"] = "tokens") -> int:
        """Its cost in a batch: all rows are as long as the longest."""
        in_characters = unit == "characters"
        return len(self.rows) * max(row.characters + 1 if in_characters else len(row.tokens) for row in self.rows)


@dataclass(frozen=True)
class LabelledBatch(PaddedBatch):
    """Padded rows, example after example.

    input_ids, attention_mask, token_type_ids: [R, T].  entity_ids: the entity of each token [R, T], or NO_ENTITY.
    labels: of a shape that the task defines.  rows: how many rows each example has [B].  counted: how many predictions
    the loss is a sum over [].
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
    for place, row in enumerate(rows):
        for at, entity in row.entities:
            entities[place, at] = entity
    sizes = torch.tensor([len(example.rows) for example in examples])
    return LabelledBatch(tokens, mask, types, entities, labels, sizes, torch.tensor(counted))


@dataclass(frozen=True)
class TextEncoder:
    """How texts become rows.

    Attributes:
        tokenizer: Of the texts.
        layout: The special tokens around them.
        longest: A row's limit in tokens.
        padding: The id that pads rows.
        entities: The ids of the entities that the model reads, by name.
    """

    tokenizer: Tokenizer
    layout: InputLayout
    longest: int
    padding: int
    entities: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Bundle, languages: Languages | None, longest: int | None = None) -> TextEncoder:
        """longest: a limit below the model's own; by default that of the finetuning, if the model has it recorded."""
        known = longest or longest_input(bundle.model.config.to_dict()) or bundle.max_positions
        limit = min(known, bundle.max_positions)
        configured = bundle.model.config.pad_token_id
        padding = bundle.padding[0] if configured is None else configured
        return cls(bundle.encoder, bundle.input_layout(languages), limit, padding, EntityTable.of(bundle.model).ids)

    @property
    def reads_forwards(self) -> bool:
        """Whether a token's state depends only on what is before it, as in a decoder alone."""
        return not self.layout.end

    def singles(self, texts: Sequence[str]) -> Iterator[Row]:
        """The row of each text."""
        encoded = encode(texts, self.tokenizer)
        for place, characters in enumerate(encoded.characters.tolist()):
            yield self.single(encoded.sequences[place], characters)

    def single(self, ids: Sequence[int], characters: int) -> Row:
        """The row of a text's tokens."""
        laid = self.layout.single(ids, self.longest)
        return Row.of(laid, characters, laid.lengths != (len(ids),))

    def pairs(self, firsts: Sequence[str], seconds: Sequence[str]) -> Iterator[Row]:
        """The row of each pair of texts."""
        encoded = encode(firsts, self.tokenizer), encode(seconds, self.tokenizer)
        for place, characters in enumerate((encoded[0].characters + encoded[1].characters).tolist()):
            first, second = (side.sequences[place] for side in encoded)
            laid = self.layout.pair(first, second, self.longest)
            yield Row.of(laid, characters, laid.lengths != (len(first), len(second)))

    def rows(self, inputs: Sequence[str | tuple[str, str]]) -> Iterator[Row]:
        """The row of each text or pair of texts."""
        singles = self.singles([each for each in inputs if isinstance(each, str)])
        firsts, seconds = ([each[at] for each in inputs if not isinstance(each, str)] for at in (0, 1))
        pairs = self.pairs(firsts, seconds)
        return (next(singles if isinstance(each, str) else pairs) for each in inputs)

    def with_ends(self, texts: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each text, and where each ends in it, in characters from 0, never falling."""
        for chunk in chunks(texts):
            for text, (ids, ends) in zip(chunk, self.tokenizer.encode_with_ends(chunk), strict=True):
                yield ids, _with_accents(text, list(accumulate(ends, max, initial=0))[1:])


def _with_accents(text: str, ends: list[int]) -> list[int]:
    """Ends after the accents of their last character: where accents are characters, normalizers may leave them out."""
    if unicodedata.is_normalized("NFC", text):
        return ends
    after = list(range(len(text) + 1))
    for place in range(len(text) - 1, -1, -1):
        if unicodedata.combining(text[place]):
            after[place] = after[place + 1]
    return [after[end] for end in ends]


def model_inputs(model: PreTrainedModel, batch: LabelledBatch) -> dict[str, Tensor]:
    """The arguments that the model's forward takes of a batch."""
    family, kind = family_of(model), kind_of_class(type(model).__name__)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if family.has_segments(vars(model.config)):
        inputs["token_type_ids"] = batch.token_type_ids
    if getattr(model.config, "entity_count", 0):
        inputs["entity_ids"] = batch.entity_ids
    if getattr(model.config, OWN_HEAD, None) is not None:
        inputs["segments"] = batch.token_type_ids
    if family.pads_left and kind in ("sequence", "choice"):
        return {name: _padded_left(rows, batch.attention_mask) for name, rows in inputs.items()}
    return inputs


def _padded_left(rows: Tensor, mask: Tensor) -> Tensor:
    """Rows [R, T] that are padded on the right, with their padding on the left."""
    places = torch.arange(rows.shape[1], device=rows.device) + mask.sum(dim=1, keepdim=True)
    return rows.gather(1, places % rows.shape[1])


def costs_of(
    examples: Sequence[LabelledExample], unit: Literal["tokens", "characters"] = "tokens"
) -> NDArray[np.int64]:
    """The cost of each example in a batch [n]."""
    return np.array([example.cost(unit) for example in examples], dtype=np.int64)
