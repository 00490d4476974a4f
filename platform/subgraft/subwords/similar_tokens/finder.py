"""Morphologically similar tokens: the subwords and hyperwords of a new token in the upstream vocabulary.

Sm(w) of Liu et al. (ACL 2021, section 3.1): w's own segmentation by the upstream tokenizer, and the longer upstream
tokens that contain w.  Prefix, infix and suffix are judged on surface forms; the boundary mark is not a character.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.subwords.similar_tokens.hyperwords import HyperwordIndex
from subgraft.subwords.similar_tokens.ragged import positions_in_rows
from subgraft.subwords.vocabulary.entry import Entry, spell_entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

Int64s = NDArray[np.int64]
Int8s = NDArray[np.int8]


class Relation(IntEnum):
    """How a similar token w' relates to w: w' is a part of w (subword), or w is a part of w' (hyperword)."""

    PREFIX_SUBWORD = 0
    INFIX_SUBWORD = 1
    SUFFIX_SUBWORD = 2
    PREFIX_HYPERWORD = 3
    INFIX_HYPERWORD = 4
    SUFFIX_HYPERWORD = 5


class Fallback(IntEnum):
    """The substitute for the similar tokens of a token that has none."""

    NONE = 0
    CHARACTERS = 1
    BYTES = 2
    MEAN = 3


@dataclass(frozen=True)
class SimilarTokens:
    """Similar tokens of n new tokens, as concatenated rows.

    Attributes:
        offsets: int64 [n + 1], where each row begins.
        token_ids: int64 [nnz], upstream ids; in each row subwords in order, then hyperwords by frequency.
        relations: int8 [nnz], `Relation`.
        fallback: int8 [n], `Fallback`; rows with MEAN are empty.
    """

    offsets: Int64s
    token_ids: Int64s
    relations: Int8s
    fallback: Int8s

    def __len__(self) -> int:
        return len(self.fallback)

    def fallback_counts(self) -> dict[str, int]:
        return count_fallbacks(self.fallback.tolist())


def count_fallbacks(fallbacks: Iterable[int]) -> dict[str, int]:
    """How many tokens needed each fallback, by its lower-case name."""
    counts = Counter(fallbacks)
    return {kind.name.lower(): counts[kind] for kind in Fallback if kind is not Fallback.NONE}


class SimilarTokenFinder:
    """Finds Sm(w) in one upstream vocabulary; built once, queried many times.

    All subwords are included, each once; hyperwords follow by frequency as long as |Sm(w)| <= max_similar. Special
    tokens, language codes, unknown and byte pieces are never similar. A token without similar tokens gets its
    characters, else its bytes, else nothing (the mean embedding).
    """

    def __init__(self, tokenizer: Tokenizer, max_similar: int = 10) -> None:
        if max_similar < 1:
            raise UserError(f"max_similar is {max_similar}", hint="Give a whole number of at least 1.")
        self.tokenizer = tokenizer
        self.max_similar = max_similar
        ids = np.fromiter(tokenizer.ids.values(), dtype=np.int64, count=len(tokenizer.ids))
        order = np.argsort(tokenizer.frequency_rank[ids])
        entries = list(tokenizer.ids)
        self._index = HyperwordIndex([entries[i] for i in order.tolist()])
        self._ids_by_frequency = ids[order]
        self._ordinary = np.isin(np.arange(len(tokenizer)), tokenizer.ordinary_ids)
        bare = [i for i, piece in enumerate(tokenizer.pieces) if piece and not piece.strip(tokenizer.mark.value)]
        self._bare_mark = np.zeros(len(tokenizer), dtype=np.bool_)
        self._bare_mark[bare] = ~self._ordinary[bare]

    def find(self, entries: Sequence[Entry]) -> SimilarTokens:
        """The similar tokens of each entry."""
        subwords = self._subwords(entries)
        hyperwords = self._hyperwords(entries, subwords)
        fallback = np.full(len(entries), Fallback.NONE, dtype=np.int8)
        missing = np.setdiff1d(np.arange(len(entries)), np.concatenate([subwords.rows, hyperwords.rows]))
        pairs = [subwords, hyperwords]
        for kind, spell in ((Fallback.CHARACTERS, partial(characters, self.tokenizer)), (Fallback.BYTES, self._bytes)):
            fallback[missing] = kind
            pieces = _flatten([spell(entries[row]) for row in missing.tolist()], missing)
            pairs.append(_relate_subwords(*pieces))
            missing = np.setdiff1d(missing, pairs[-1].rows)
        fallback[missing] = Fallback.MEAN
        return _assemble(pairs, fallback)

    def _subwords(self, entries: Sequence[Entry]) -> _Pairs:
        rows, ids = _flatten(self.tokenizer.segment_batch(entries), np.arange(len(entries)))
        # Drop bare marks, which are not part of the word. Unknown parts remain until `_relate_subwords` has determined
        # the positions of the others.
        has_text = ~self._bare_mark[ids]
        rows, ids = rows[has_text], ids[has_text]
        return _relate_subwords(rows, np.where(self._ordinary[ids], ids, MISSING))

    def _hyperwords(self, entries: Sequence[Entry], subwords: _Pairs) -> _Pairs:
        """Hyperwords by frequency, without those that are already subwords, as many as there is room for."""
        matches = self._index.find(entries, self.max_similar)
        ids = self._ids_by_frequency[matches.entries]
        relations = np.select(
            [matches.prefix, matches.suffix],
            [Relation.PREFIX_HYPERWORD, Relation.SUFFIX_HYPERWORD],
            Relation.INFIX_HYPERWORD,
        )
        size = len(self.tokenizer)
        is_new = ~np.isin(matches.queries * size + ids, subwords.rows * size + subwords.ids)
        rows, ids, relations = matches.queries[is_new], ids[is_new], relations[is_new]
        room = self.max_similar - np.bincount(subwords.rows, minlength=len(entries))
        within_limit = positions_in_rows(rows) < room[rows]
        return _Pairs(rows[within_limit], ids[within_limit], relations[within_limit].astype(np.int8))

    def _bytes(self, entry: Entry) -> list[int]:
        return [self.tokenizer.byte_ids.get(byte, MISSING) for byte in entry.surface.encode("utf-8")]


MISSING = -1  # the id of a part of a token that has no upstream piece


def characters(tokenizer: Tokenizer, entry: Entry) -> list[int]:
    """Ids of the entry's characters, MISSING for those without a token."""
    letters = [Entry(c, entry.word_initial and i == 0) for i, c in enumerate(entry.surface)]
    return [tokenizer.ids.get(character, MISSING) for character in letters]


@dataclass(frozen=True)
class _Pairs:
    """Row, upstream id and relation of each pair [nnz]."""

    rows: Int64s
    ids: Int64s
    relations: Int8s


def _flatten(parts: Sequence[Sequence[int]], rows: Int64s) -> tuple[Int64s, Int64s]:
    counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    ids = np.fromiter(chain.from_iterable(parts), dtype=np.int64, count=int(counts.sum()))
    return np.repeat(rows, counts), ids


def related_subwords(ids: Sequence[int]) -> tuple[Int64s, Int8s]:
    """The parts of one token, in order, as its subwords: ids, each once, and their relations."""
    pairs = _relate_subwords(np.zeros(len(ids), dtype=np.int64), np.array(ids, dtype=np.int64))
    return pairs.ids, pairs.relations


def _relate_subwords(rows: Int64s, ids: Int64s) -> _Pairs:
    """Parts of tokens, in order, as subwords: each once per row, with the first relation of prefix, suffix, infix."""
    boundary = rows[1:] != rows[:-1]
    first, last = np.append(True, boundary)[: len(rows)], np.append(boundary, True)[: len(rows)]
    precedence = np.select([first, last], [0, 1], 2)
    present = np.flatnonzero(ids != MISSING)
    rows, ids, precedence = rows[present], ids[present], precedence[present]
    keys = rows * (ids.max(initial=0) + 1) + ids
    _, earliest, group = np.unique(keys, return_index=True, return_inverse=True)
    best = np.full(len(earliest), 2)
    np.minimum.at(best, group, precedence)
    selected = np.sort(earliest)
    by_precedence = np.array([Relation.PREFIX_SUBWORD, Relation.SUFFIX_SUBWORD, Relation.INFIX_SUBWORD], dtype=np.int8)
    return _Pairs(rows[selected], ids[selected], by_precedence[best[group[selected]]])


def _assemble(groups: Sequence[_Pairs], fallback: Int8s) -> SimilarTokens:
    rows = np.concatenate([pairs.rows for pairs in groups])
    order = np.argsort(rows, kind="stable")
    offsets = np.zeros(len(fallback) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(fallback)), out=offsets[1:])
    return SimilarTokens(
        offsets,
        np.concatenate([pairs.ids for pairs in groups])[order],
        np.concatenate([pairs.relations for pairs in groups])[order],
        fallback,
    )


# Similar tokens as a table to read: one line per pair.


class SimilarRow(NamedTuple):
    """A pair of a token and a similar token.

    Attributes:
        token, similar: Both, written with the vocabulary's mark.
        kind: subword, hyperword, character, byte or mean.
        position: prefix, infix or suffix.
        rank: From 1, in Sm(w).
    """

    token: str
    similar: str
    kind: str
    position: str
    rank: int


_FALLBACK_KINDS = {Fallback.CHARACTERS: "character", Fallback.BYTES: "byte"}


def similar_rows(tokenizer: Tokenizer, entries: Sequence[Entry], similar: SimilarTokens) -> Iterator[SimilarRow]:
    """The pairs in order; a token without similar tokens has one row, of kind mean."""
    offsets = similar.offsets.tolist()
    for i, entry in enumerate(entries):
        token, fallback = spell_entry(entry, tokenizer.mark), Fallback(similar.fallback[i])
        if fallback is Fallback.MEAN:
            yield SimilarRow(token, "", "mean", "", 1)
        for rank, pair in enumerate(range(offsets[i], offsets[i + 1]), start=1):
            position, kind = Relation(similar.relations[pair]).name.lower().split("_")
            kind = _FALLBACK_KINDS.get(fallback, kind)
            yield SimilarRow(token, tokenizer.pieces[similar.token_ids[pair]], kind, position, rank)
