"""Similar tokens as a table to read: one line per pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from subgraft.subwords.similar_tokens.finder import Fallback, Relation, SimilarTokens
from subgraft.subwords.vocabulary.entry import Entry, spell_entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class SimilarRow(NamedTuple):
    """kind: subword, hyperword, character, byte, mean.  position: prefix, infix, suffix.  rank: from 1, in Sm(w)."""

    token: str
    similar: str
    kind: str
    position: str
    rank: int


STAND_INS = {Fallback.CHARACTERS: "character", Fallback.BYTES: "byte"}


def similar_rows(tokenizer: Tokenizer, entries: Sequence[Entry], similar: SimilarTokens) -> Iterator[SimilarRow]:
    """The pairs in order, tokens spelled with the vocabulary's mark; a token without any has one row, of kind mean."""
    offsets = similar.offsets.tolist()
    for i, entry in enumerate(entries):
        token, fallback = spell_entry(entry, tokenizer.mark), Fallback(similar.fallback[i])
        if fallback is Fallback.MEAN:
            yield SimilarRow(token, "", "mean", "", 1)
        for rank, k in enumerate(range(offsets[i], offsets[i + 1]), start=1):
            position, kind = Relation(similar.relations[k]).name.lower().split("_")
            kind = STAND_INS.get(fallback, kind)
            yield SimilarRow(token, tokenizer.pieces[similar.token_ids[k]], kind, position, rank)
