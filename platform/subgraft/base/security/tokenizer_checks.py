"""Validate a tokenizer.json before tokenizers loads it: a damaged file makes the library panic, or abort Python.

A Rust panic does not derive from Exception, so ordinary handlers miss it; an abort cannot be caught at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.security.limits import ADDED_TOKENS, PIECE_LENGTH, PIECES
from subgraft.base.security.text_growth import require_bounded

# The maximum length of a word that WordPiece segments, because it tries every substring. Published vocabularies have
# 100 or 200.
MAX_WORD_CHARACTERS = 1000
# The module of a panic's class, which no package exports.
_RUST = "pyo3_runtime"


def require_sound(specification: Mapping[str, Any]) -> None:
    """Raises UserError for a parsed tokenizer.json that is malformed or too large."""
    model, added = specification.get("model"), specification.get("added_tokens") or []
    if not isinstance(model, dict) or not isinstance(model.get("type"), str):
        raise UserError("a vocabulary needs a model with a type")
    if not isinstance(added, list) or not all(
        isinstance(token, dict) and _is_id(token.get("id")) and isinstance(token.get("content"), str) for token in added
    ):
        raise UserError("added_tokens must be a list of tokens with id and content")
    if len(added) > ADDED_TOKENS.value:
        raise UserError(f"a vocabulary of {len(added):,} added tokens is not read", hint=ADDED_TOKENS.hint)
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict | list):
        raise UserError("a vocabulary needs its pieces in model.vocab")
    ids = [token["id"] for token in added]
    require_few_pieces(len(vocabulary) + len(added))
    if isinstance(vocabulary, dict):
        if not all(_is_id(i) for i in vocabulary.values()):
            raise UserError("the ids of a vocabulary's pieces must be whole numbers from 0")
        ids += vocabulary.values()
    elif not all(_is_scored(entry) for entry in vocabulary):
        raise UserError("a vocabulary of scored pieces needs pairs of a piece and its score")
    require_few_pieces(1 + max(ids, default=-1))
    if model["type"] == "WordPiece" and model.get("unk_token") not in vocabulary:
        raise UserError(f"a WordPiece vocabulary without its unknown token ({model.get('unk_token')!r:.40})")
    if model["type"] == "BPE":
        _check_merges(model)
    _check_lengths(model, added)
    require_bounded(specification)


def _check_lengths(model: Mapping[str, Any], added: Sequence[Mapping[str, Any]]) -> None:
    """Raises UserError if a piece is too long, or an affix, which is added to every character of a word."""
    values = (model.get(key) for key in ("continuing_subword_prefix", "end_of_word_suffix"))
    affixes = (value for value in values if isinstance(value, str))
    pieces = (entry if isinstance(entry, str) else entry[0] for entry in model["vocab"])
    longest = max(map(len, chain(pieces, (token["content"] for token in added), affixes)), default=0)
    if longest > PIECE_LENGTH.value:
        raise UserError(f"a piece of {longest:,} characters", hint=PIECE_LENGTH.hint)
    limit: Any = model.get("max_input_chars_per_word")
    if model["type"] == "WordPiece" and _is_id(limit) and limit > MAX_WORD_CHARACTERS:
        problem = f"max_input_chars_per_word is {limit:,}"
        raise UserError(problem, hint=f"At most {MAX_WORD_CHARACTERS:,} is allowed; published vocabularies have 100.")


def require_few_pieces(count: int) -> None:
    """Raises UserError if a vocabulary has too many pieces, or too high an id."""
    if count > PIECES.value:
        raise UserError(f"a vocabulary of {count:,} pieces, or with ids that high, is not read", hint=PIECES.hint)


@contextmanager
def as_user_error(what: str) -> Iterator[None]:
    """Convert exceptions and panics of tokenizers to a UserError whose message starts with `what`."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__module__ != _RUST:
            raise
        raise UserError(f"{what}: {error}") from error


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_scored(entry: Any) -> bool:
    if not isinstance(entry, list | tuple) or len(entry) != 2:
        return False
    return isinstance(entry[0], str) and isinstance(entry[1], int | float)


def _check_merges(model: Mapping[str, Any]) -> None:
    """Both parts of a merge and its result must be pieces.

    The result is the left part and the right part without its prefix. tokenizers removes the prefix by its length in
    bytes without comparing it: if the right part lacks the prefix, it panics or produces invalid UTF-8.
    """
    prefix, merges, vocabulary = model.get("continuing_subword_prefix") or "", model.get("merges"), model["vocab"]
    if not isinstance(prefix, str) or not prefix.isascii():
        raise UserError("continuing_subword_prefix must be of ASCII characters")
    if not isinstance(merges, list) or not isinstance(vocabulary, dict):
        raise UserError("a BPE vocabulary needs pieces with ids, and a list of merges")
    for number, merge in enumerate(merges, 1):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(merge, str) and merge.startswith("#version"):
            continue
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise UserError(f"merge {number} is {str(merge)!r:.60}, where two pieces are expected")
        left, right = parts
        if not right.startswith(prefix) or not {left, right, left + right[len(prefix) :]} <= vocabulary.keys():
            raise UserError(f"merge {number} ({left!r:.40} {right!r:.40}) refers to pieces missing from the vocabulary")
