"""The segmentation of a new token by the upstream vocabulary, or a substitute for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.subwords.similar_tokens.finder import MISSING, Fallback, characters
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER, Entry, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Parts:
    """Upstream ids over which a token's mean is computed, and the fallback if they are not ordinary subwords."""

    ids: list[int]
    fallback: Fallback

    @property
    def is_readable(self) -> bool:
        """Whether the upstream model reads these ids in a text with the token; otherwise it reads an unknown token."""
        return self.fallback in (Fallback.NONE, Fallback.BYTES)


def subwords(source: Tokenizer, entries: Sequence[Entry]) -> list[Parts]:
    """The ordinary subwords of each entry, or as fallbacks its characters, its bytes, or nothing.

    Bare marks are left out, and so are bytes next to ordinary subwords, because one byte does not determine a
    character.
    """
    excluded = source.special_ids | {i for i, piece in enumerate(source.pieces) if piece == source.mark.value}
    parts_of_entries = list[Parts]()
    for entry, ids in zip(entries, source.segment_batch(entries), strict=True):
        segmented = [i for i in ids if i not in excluded]
        if ordinary := [i for i in segmented if source.entries[i] is not None]:
            parts_of_entries.append(Parts(ordinary, Fallback.NONE))
        elif letters := [i for i in characters(source, entry) if i != MISSING]:
            parts_of_entries.append(Parts(letters, Fallback.CHARACTERS))
        else:
            parts_of_entries.append(Parts(segmented, Fallback.BYTES if segmented else Fallback.MEAN))
    return parts_of_entries


def spellable_unseen_tokens(source: Tokenizer, target: Tokenizer) -> tuple[int, ...]:
    """The unseen tokens of `target` that `source` can segment into subwords or bytes; others it reads as unknown."""
    unseen = align(source, target).unseen
    entries = [entry for token in unseen if (entry := target.entries[token]) is not None]
    return tuple(token for token, parts in zip(unseen, subwords(source, entries), strict=True) if parts.is_readable)


def partial_characters(source: Tokenizer, target: Tokenizer, tokens: Sequence[int]) -> list[list[int]]:
    """The upstream pieces of each byte-level token that is a part of a character; none of other tokens."""
    if not (source.mark is target.mark is Mark.BYTELEVEL):
        return [[] for _ in tokens]
    tokenize = source.backend.model.tokenize
    return [
        [part.id for part in tokenize(target.pieces[token]) if part.id not in source.special_ids]
        if token not in target.special_ids and BYTE_OF_CHARACTER.keys() >= set(target.pieces[token])
        else []
        for token in tokens
    ]
