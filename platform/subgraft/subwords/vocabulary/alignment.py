"""Align a new vocabulary with an old one: which old embedding each new token copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subgraft.subwords.vocabulary.tokenizer import Tokenizer

NEW = -1
# Roles by precedence, for tokens that have several of them.
_ROLES = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")


@dataclass(frozen=True)
class Alignment:
    """The tokens of a new vocabulary against an old one.

    Attributes:
        origins: int64 [new size], the old id whose embedding is copied, or NEW.
        seen: Number of ordinary tokens in both.
        special: Number of special tokens and language codes in both.
        unseen: New ids of subwords that the old vocabulary lacks, ascending.
        others: New ids of other tokens that it lacks: special tokens, and pieces that are not text.
    """

    origins: NDArray[np.int64]
    seen: int
    special: int
    unseen: tuple[int, ...]
    others: tuple[int, ...]


def align(source: Tokenizer, target: Tokenizer) -> Alignment:
    """Align seen tokens by entry, special tokens by role, language codes by code, bytes and bare marks by meaning.

    Special tokens without a role, and pieces without text under the same mark, are aligned by spelling; so are
    user-defined symbols, or else by entry.
    """
    special = _special_origins(source, target)
    textless = _textless_origins(source, target)
    by_spelling = _added_by_spelling(source)
    symbols = {token: by_spelling[symbol] for token, symbol in target.symbols.items() if symbol in by_spelling}
    origins = np.full(len(target), NEW, dtype=np.int64)
    for token, entry in enumerate(target.entries):
        if token in target.special_ids:
            origins[token] = special.get(token, NEW)
        elif token in symbols:
            origins[token] = symbols[token]
        elif entry is None:
            origins[token] = textless.get(token, NEW)
        else:
            origins[token] = source.ids.get(entry, NEW)
    unseen, others = _split_new(origins, target)
    special_copied = sum(origin != NEW for token, origin in enumerate(origins.tolist()) if token in target.special_ids)
    seen = len(target) - len(unseen) - len(others) - special_copied
    return Alignment(origins, seen, special=special_copied, unseen=unseen, others=others)


def new_tokens(source: Tokenizer, target: Tokenizer, copy_shared_tokens: bool = True) -> NDArray[np.int64]:
    """Target ids, ascending, of tokens that copy no row: subwords, special tokens, and pieces without text."""
    alignment = align(source, target)
    return np.flatnonzero((alignment if copy_shared_tokens else only_special_tokens(alignment, target)).origins == NEW)


def only_special_tokens(alignment: Alignment, target: Tokenizer) -> Alignment:
    """The alignment without its seen tokens: only special tokens and language codes copy a row."""
    special = np.isin(np.arange(len(target)), list(target.special_ids))
    origins = np.where(special, alignment.origins, NEW)
    unseen, others = _split_new(origins, target)
    return Alignment(origins, seen=0, special=alignment.special, unseen=unseen, others=others)


def _split_new(origins: NDArray[np.int64], target: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the tokens without an origin into subwords and pieces without text."""
    new = np.flatnonzero(origins == NEW).tolist()
    unseen = tuple(token for token in new if target.entries[token] is not None)
    return unseen, tuple(token for token in new if target.entries[token] is None)


def _special_origins(source: Tokenizer, target: Tokenizer) -> dict[int, int]:
    # OPT has a piece <unk>, although its unknown token is its end.
    by_piece = dict(zip(reversed(source.pieces), range(len(source) - 1, -1, -1), strict=True))
    by_piece |= _added_by_spelling(source)
    origins = {token: by_piece[piece] for token, piece in enumerate(target.pieces) if piece in by_piece}
    origins |= {token: source.languages[code] for code, token in target.languages.items() if code in source.languages}
    for role in reversed(_ROLES):
        if role in source.special and role in target.special and not _stands_in(source, target, role):
            origins[target.special[role]] = source.special[role]
    return {token: origin for token, origin in origins.items() if token in target.special_ids}


def _stands_in(source: Tokenizer, target: Tokenizer, role: str) -> bool:
    """Whether the source's unknown token is another one, as the end is in GPT-2 and OPT, and the target has its own."""
    if role != "unk":
        return False
    shared = [other for other in ("bos", "eos", "pad") if source.special.get(other) == source.special["unk"]]
    return bool(shared) and target.special["unk"] not in map(target.special.get, shared)


def _added_by_spelling(tokenizer: Tokenizer) -> dict[str, int]:
    """Special tokens and user-defined symbols by spelling: vocabularies differ in which of them they call special."""
    return {
        tokenizer.pieces[token]: token for token in sorted(tokenizer.special_ids.union(tokenizer.symbols), reverse=True)
    }


def _textless_origins(source: Tokenizer, target: Tokenizer) -> dict[int, int]:
    """Origins of pieces without an entry: the same raw piece under the same mark, the same byte, or the bare mark."""
    raw = {
        piece: token
        for token, piece in reversed(list(enumerate(source.pieces)))
        if source.entries[token] is None and token not in source.special_ids
    }
    same_mark = source.mark is target.mark
    origins = {token: raw[piece] for token, piece in enumerate(target.pieces) if same_mark and piece in raw}
    origins |= {token: source.byte_ids[byte] for byte, token in target.byte_ids.items() if byte in source.byte_ids}
    # Last, because a byte-level vocabulary's bare mark is a byte as well.
    bare = source.mark.value
    if bare in raw:
        origins |= {token: raw[bare] for token, piece in enumerate(target.pieces) if piece == target.mark.value}
    return origins
