"""The segmentation of a new token by the upstream vocabulary, or a substitute for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.subwords.similar_tokens.finder import MISSING, Fallback, characters
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Parts:
    """Upstream ids over which a token's mean is computed, and the fallback if they are not ordinary subwords."""

    ids: list[int]
    fallback: Fallback

    @property
    def read(self) -> bool:
        """Whether the upstream model sees these ids in a text with the token; otherwise it sees an unknown token."""
        return self.fallback in (Fallback.NONE, Fallback.BYTES)


def subwords(source: Tokenizer, entries: Sequence[Entry]) -> list[Parts]:
    """Each entry's ordinary subwords, as segmented by the tokenizer; without any its characters, bytes, or nothing.

    Bytes next to ordinary subwords are left out, like bare marks: one byte does not determine a character.
    """
    silent = source.special_ids | {i for i, piece in enumerate(source.pieces) if piece == source.mark.value}
    return [
        _parts(source, entry, [i for i in ids if i not in silent])
        for entry, ids in zip(entries, source.segment_batch(entries), strict=True)
    ]


def _parts(source: Tokenizer, entry: Entry, cut: list[int]) -> Parts:
    if ordinary := [i for i in cut if source.entries[i] is not None]:
        return Parts(ordinary, Fallback.NONE)
    if letters := [i for i in characters(source, entry) if i != MISSING]:
        return Parts(letters, Fallback.CHARACTERS)
    return Parts(cut, Fallback.BYTES if cut else Fallback.MEAN)


def spelled_by(source: Tokenizer, target: Tokenizer) -> tuple[int, ...]:
    """Unseen tokens of `target` of which `source` has a part; it reads the others as unknown."""
    unseen = align(source, target).unseen
    entries = [entry for token in unseen if (entry := target.entries[token]) is not None]
    return tuple(token for token, parts in zip(unseen, subwords(source, entries), strict=True) if parts.read)
