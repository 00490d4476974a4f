"""How well a model predicts text, by how often the new tokens in it occur in the training text.

A new token is one of the downstream vocabulary that the upstream one lacks. Rows with different vocabularies cut the
same text differently, so they are compared on stretches: the smallest pieces of a reference at whose ends the upstream
and the downstream segmentation meet. No white space is needed. A stretch is as rare as its rarest new token; the bits
of all stretches, with those of the ends of sentences, are the bits of the text, whatever vocabulary the model has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from subgraft.subwords.vocabulary.spelling import byte_tokens, chunks
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer

# Classes in the order of CLASSES, as small integers.
ClassArray: TypeAlias = NDArray[np.int64]

SEEN, NOT_SPELLED = "seen", "not spelled"
# The largest number of occurrences in the training text of each class; more than the last are `over 100`.
_MAX_OCCURRENCES = {"0": 0, "1–2": 2, "3–10": 10, "11–100": 100}
NEW_CLASSES = (*_MAX_OCCURRENCES, "over 100")
CLASSES = (SEEN, *NEW_CLASSES, NOT_SPELLED)


@dataclass(frozen=True)
class Bits:
    """The bits of one class, and its numbers of units (tokens or stretches), characters and different tokens."""

    units: int
    characters: int
    types: int
    bits: float


@dataclass(frozen=True)
class Likelihood:
    """How well a model predicts the references, in bits.

    sentences: predicted ones.  left_out: references longer than the model's limit.  end_bits: of the special tokens at
    sentence ends, a part of `bits`.  tokens: of the model's own vocabulary, by class.  stretches: by the classes of the
    downstream vocabulary's tokens, the same for every model; `not spelled` if the upstream or the downstream vocabulary
    has an unknown token there.
    """

    sentences: int
    left_out: int
    characters: int
    bits: float
    end_bits: float
    tokens: Mapping[str, Bits]
    stretches: Mapping[str, Bits]

    @property
    def bits_per_character(self) -> float:
        return self.bits / self.characters

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, with bits per character."""
        return {"bits_per_character": self.bits_per_character, **asdict(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Likelihood:
        plain = {name: value for name, value in values.items() if name != "bits_per_character"}
        for kind in ("tokens", "stretches"):
            plain[kind] = {name: Bits(**bits) for name, bits in values[kind].items()}
        return cls(**plain)


def token_classes(vocabulary: Tokenizer, upstream: Tokenizer, lines: Iterable[str]) -> ClassArray:
    """The class of each token of a vocabulary [V], by its frequency in the training text `lines`.

    Tokens of the upstream vocabulary are SEEN, like special tokens, bare marks, and bytes of both vocabularies. The
    unknown token is NOT_SPELLED.
    """
    counts = np.zeros(len(vocabulary), dtype=np.int64)
    for chunk in chunks(lines):
        ids = [token for line in vocabulary.encode_batch(chunk) for token in line]
        counts += np.bincount(np.array(ids, dtype=np.int64), minlength=len(vocabulary))
    classes = np.full(len(vocabulary), CLASSES.index(SEEN))
    new = [i for i, entry in enumerate(vocabulary.entries) if entry is not None and entry not in upstream.ids]
    byte_ids = byte_tokens(vocabulary)
    new += [i for byte, i in vocabulary.byte_ids.items() if i in byte_ids and byte not in upstream.byte_ids]
    classes[new] = 1 + np.searchsorted(list(_MAX_OCCURRENCES.values()), counts[new])
    if "unk" in vocabulary.special:
        classes[vocabulary.special["unk"]] = CLASSES.index(NOT_SPELLED)
    return classes


class BitsByClass:
    """Sums up bits by class, over references of a test set.

    own, downstream: the model's and the task's vocabulary, each with the classes of its tokens (`token_classes`).
    upstream: the old vocabulary. Stretches end where the upstream and the downstream segmentation meet.
    """

    def __init__(
        self, own: tuple[Tokenizer, ClassArray], upstream: Tokenizer, downstream: tuple[Tokenizer, ClassArray]
    ) -> None:
        self._own, self._own_classes = own
        self._upstream = upstream
        self._downstream, self._classes = downstream
        self._tokens = _Sums()
        self._stretches = _Sums()
        self._bits = self._end_bits = 0.0
        self._sentences = self._characters = 0

    def add(self, references: Sequence[str], nats: Sequence[NDArray[np.float64]]) -> None:
        """nats: for each reference the negative log-likelihood of its tokens, and of the special ones that end it."""
        segmentations = [
            vocabulary.encode_with_ends(references) for vocabulary in (self._own, self._upstream, self._downstream)
        ]
        for reference, token_nats, own, old, new in zip(references, nats, *segmentations, strict=True):
            bits = token_nats / math.log(2)
            self._sentences += 1
            self._characters += len(reference)
            self._bits += float(bits.sum())
            self._end_bits += float(bits[len(own[0]) :].sum())
            covered = 0
            # `bits` also has those of the special tokens at the end, which are counted separately.
            for token, end, token_bits in zip(*own, bits.tolist(), strict=False):
                length = max(0, end - covered)
                covered += length
                self._tokens.add(int(self._own_classes[token]), length, float(token_bits), [token])
            if reference:
                self._add_stretches(len(reference), own[1], bits, old, new)

    def _add_stretches(
        self,
        length: int,
        ends: Sequence[int],
        bits: NDArray[np.float64],
        old: tuple[list[int], list[int]],
        new: tuple[list[int], list[int]],
    ) -> None:
        borders = common_ends(old[1], new[1], length)
        by_character = spread(ends, bits.tolist(), length)
        stretch_tokens: list[list[int]] = [[] for _ in borders]
        has_unknown = [False] * len(borders)
        for token, end in zip(*new, strict=True):
            if end != NO_OFFSET:
                stretch_tokens[int(np.searchsorted(borders, end))].append(token)
        for token, end in zip(*old, strict=True):
            if end != NO_OFFSET and token == self._upstream.special.get("unk"):
                has_unknown[int(np.searchsorted(borders, end))] = True
        start = 0
        for border, tokens, unknown in zip(borders, stretch_tokens, has_unknown, strict=True):
            name, rarest = (CLASSES.index(NOT_SPELLED), []) if unknown else self._rarest(tokens)
            self._stretches.add(name, border - start, float(by_character[start:border].sum()), rarest)
            start = border

    def _rarest(self, tokens: Sequence[int]) -> tuple[int, list[int]]:
        """The class of a stretch of text, and the tokens that determine it."""
        classes = {token: int(self._classes[token]) for token in tokens}
        if CLASSES.index(NOT_SPELLED) in classes.values():
            return CLASSES.index(NOT_SPELLED), []
        new = [token_class for token_class in classes.values() if token_class != CLASSES.index(SEEN)]
        rarest = min(new, default=CLASSES.index(SEEN))
        return rarest, [token for token, token_class in classes.items() if token_class == rarest]

    def result(self, left_out: int) -> Likelihood:
        """The sums. Raises ValueError if there is no text."""
        if not self._characters:
            raise ValueError("the likelihood of an empty text")
        return Likelihood(
            sentences=self._sentences,
            left_out=left_out,
            characters=self._characters,
            bits=self._bits,
            end_bits=self._end_bits,
            tokens=self._tokens.by_class(),
            stretches=self._stretches.by_class(),
        )


class _Sums:
    def __init__(self) -> None:
        self._units, self._characters = [0] * len(CLASSES), [0] * len(CLASSES)
        self._bits = [0.0] * len(CLASSES)
        self._types: list[set[int]] = [set() for _ in CLASSES]

    def add(self, name: int, characters: int, bits: float, types: Iterable[int]) -> None:
        self._units[name] += 1
        self._characters[name] += characters
        self._bits[name] += bits
        self._types[name].update(types)

    def by_class(self) -> dict[str, Bits]:
        """The classes with any unit."""
        return {
            name: Bits(self._units[i], self._characters[i], len(self._types[i]), self._bits[i])
            for i, name in enumerate(CLASSES)
            if self._units[i]
        }


def common_ends(first: Sequence[int], second: Sequence[int], length: int) -> list[int]:
    """The positions at which tokens of both segmentations end; the last is the text's `length` in characters."""
    common = (set(first) & set(second)) - {NO_OFFSET, 0}
    return sorted(end for end in common | {length} if end <= length)


def spread(ends: Sequence[int], amounts: Sequence[float], length: int) -> NDArray[np.float64]:
    """Amounts per character [length]: each token's amount is spread evenly over its characters.

    ends: from `Tokenizer.encode_with_ends`. The amount of a bare mark goes to the next token, or to the last character;
    that of a further byte of a character goes to that character. Amounts beyond the ends are ignored.
    """
    by_character = np.zeros(length)
    covered, pending = 0, 0.0
    for end, amount in zip(ends, amounts, strict=False):
        pending += amount
        if end == NO_OFFSET:
            continue
        start, stop = (covered, end) if end > covered else (max(0, covered - 1), max(1, covered))
        by_character[start:stop] += pending / (stop - start)
        covered, pending = max(covered, end), 0.0
    by_character[-1] += pending
    return by_character
