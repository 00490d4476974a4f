"""Edit the tokens of a parsed tokenizer.json and renumber all ids that refer to them.

Ids occur in the model's vocabulary, among the added tokens, in the post-processor and in the configuration; merges
refer to pieces by spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import tokenizers

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.tokenizer_description import describe, merges_of

Specification = dict[str, Any]
# A code point that no text contains (one of Unicode's noncharacters), so that no text is segmented into such a piece.
NO_TEXT = "\uffff"


def merge_ranks(model: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """The rank of each merge of a BPE model, 0 the first."""
    return {merge: rank for rank, merge in enumerate(merges_of(model))}


def merged_from(piece: str, rank: Callable[[tuple[str, str]], float | None]) -> set[str]:
    """The piece, its characters and all intermediate pieces of its merges.

    They do not depend on the word, because the merge of lowest rank within the piece is applied first everywhere.

    Args:
        rank: The rank of a merge; None if there is no such merge.
    """
    symbols = list(piece)
    made = {piece, *symbols}
    while possible := [(ranked, at) for at, ranked in enumerate(map(rank, pairwise(symbols))) if ranked is not None]:
        _, at = min(possible)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        made.add(symbols[at])
    return made


def without(backend: tokenizers.Tokenizer, pieces: Collection[str]) -> tokenizers.Tokenizer:
    """The vocabulary without some of its ordinary pieces; ids are renumbered without gaps."""
    specification, gone = json.loads(backend.to_str()), frozenset(pieces)
    ids = [i for i, piece in enumerate(describe(specification).pieces) if piece not in gone]
    reduced: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(keeping(specification, ids)))
    return reduced


def keeping(specification: Specification, ids: Sequence[int]) -> Specification:
    """The tokenizer with only these tokens, in this order, numbered from 0; they include all special tokens.

    Merges that use or produce other pieces are removed. Every token gets a place in the model's own vocabulary, also an
    added one: tokenizers would otherwise number it again behind whatever is appended.
    """
    pieces, model = describe(specification).pieces, specification["model"]
    new = {old: at for at, old in enumerate(ids)}
    named = [pieces[i] or f"{NO_TEXT}{i}" for i in ids]  # a hole among the ids stays one
    holes = [_special_token(at, name) for at, name in enumerate(named) if name.startswith(NO_TEXT)]
    added = [{**token, "id": new[token["id"]]} for token in specification["added_tokens"] if token["id"] in new]
    known = {token["id"] for token in added}
    added += [token for token in holes if token["id"] not in known]
    return {
        **specification,
        "model": _unigram(model, ids, named, new) if model["type"] == "Unigram" else _by_piece(model, named),
        "added_tokens": sorted(added, key=lambda token: int(token["id"])),
        "post_processor": _renumbered(specification.get("post_processor"), new),
    }


def _unigram(model: Mapping[str, Any], ids: Sequence[int], named: Sequence[str], new: Mapping[int, int]) -> Any:
    scores = [score for _, score in model["vocab"]]
    least = min(scores)
    vocabulary = [[name, scores[i] if i < len(scores) else least] for i, name in zip(ids, named, strict=True)]
    unknown = model["unk_id"]
    return {**model, "vocab": vocabulary, "unk_id": None if unknown is None else new[unknown]}


def _by_piece(model: Mapping[str, Any], named: Sequence[str]) -> Any:
    vocabulary = {name: at for at, name in enumerate(named)}
    changed = {**model, "vocab": vocabulary}
    if model["type"] == "BPE":
        merges = ((left, right) for left, right in merges_of(model) if left in vocabulary and right in vocabulary)
        changed["merges"] = [[left, right] for left, right in merges if left + right in vocabulary]
    return changed


def _renumbered(part: Any, new: Mapping[int, int]) -> Any:
    """A post-processor with new ids: of `sep` and `cls` (piece and id), and of the special tokens of a template."""
    if isinstance(part, list):
        return [_renumbered(each, new) for each in part]
    if not isinstance(part, dict):
        return part
    changed = {key: _renumbered(value, new) for key, value in part.items()}
    for key in ("sep", "cls"):
        if key in part:
            piece, token = part[key]
            changed[key] = [piece, _new_id(token, new)]
    if "ids" in part and "tokens" in part:
        changed["ids"] = [_new_id(token, new) for token in part["ids"]]
    return changed


def _new_id(token: int, new: Mapping[int, int]) -> int:
    """The new id of a token that the post-processor adds. Raises UserError if the token was removed."""
    if token not in new:
        raise UserError(f"the vocabulary puts token {token} around texts, which is not a special token")
    return new[token]


def with_scores(specification: Specification, scored: Sequence[tuple[str, float]]) -> Specification:
    """A unigram tokenizer, numbered by `keeping`, with pieces and their scores appended."""
    model = specification["model"]
    return {**specification, "model": {**model, "vocab": [*model["vocab"], *map(list, scored)]}}


def with_pieces(specification: Specification, pieces: Sequence[str]) -> Specification:
    """A WordPiece or BPE tokenizer, numbered by `keeping`, with pieces appended.

    In BPE each split of a new piece into two existing pieces becomes a merge after all existing merges, so old merges
    apply as before and new ones join what remains.
    """
    model = specification["model"]
    vocabulary, merges = dict(model["vocab"]), list(model.get("merges", ()))
    for piece in pieces:
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        merges += [[left, right] for left, right in cuts if left in vocabulary and right in vocabulary]
        vocabulary[piece] = len(vocabulary)
    changed = {**model, "vocab": vocabulary} | ({"merges": merges} if model["type"] == "BPE" else {})
    return {**specification, "model": changed}


def with_special_tokens(specification: Specification, pieces: Sequence[str]) -> Specification:
    """A tokenizer, numbered by `keeping`, with special tokens appended: no ordinary text is cut into them."""
    model, vocabulary = specification["model"], specification["model"]["vocab"]
    first = len(vocabulary)
    if model["type"] == "Unigram":
        least = min(score for _, score in vocabulary)
        vocabulary = [*vocabulary, *([piece, least] for piece in pieces)]
    else:
        vocabulary = {**vocabulary, **{piece: first + at for at, piece in enumerate(pieces)}}
    new = [_special_token(first + at, piece) for at, piece in enumerate(pieces)]
    added = [*specification["added_tokens"], *new]
    return {**specification, "model": {**model, "vocab": vocabulary}, "added_tokens": added}


def hiding(specification: Specification, ids: Collection[int]) -> Specification:
    """The tokenizer with these ids as special tokens that do not occur in text; all other tokens keep their ids.

    In BPE all merges that produce or use such a piece are removed. A longer piece that no other merges produce remains
    an entry, but no text is segmented into it.
    """
    model = specification["model"]
    stand_in = {i: f"{NO_TEXT}{i}" for i in ids}
    changed = {**model, "vocab": _renamed(model["vocab"], stand_in)}
    if model["type"] == "BPE":
        gone = {piece for piece, i in model["vocab"].items() if i in stand_in}
        pairs = zip(model["merges"], merges_of(model), strict=True)
        changed["merges"] = [merge for merge, (left, right) in pairs if gone.isdisjoint((left, right, left + right))]
    added = [*specification.get("added_tokens", []), *(_special_token(i, piece) for i, piece in stand_in.items())]
    return {**specification, "model": changed, "added_tokens": sorted(added, key=lambda token: int(token["id"]))}


def _renamed(vocabulary: Any, stand_in: Mapping[int, str]) -> Any:
    """Pieces by id (unigram) or ids by piece, with other names for some."""
    if isinstance(vocabulary, list):
        return [[stand_in.get(i, piece), score] for i, (piece, score) in enumerate(vocabulary)]
    return {stand_in.get(i, piece): i for piece, i in vocabulary.items()}


def _special_token(token: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token, "content": content, **flags}
