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


def intermediate_pieces(piece: str, rank: Callable[[tuple[str, str]], float | None]) -> set[str]:
    """The piece, its characters, and all pieces that BPE forms on the way from its characters to the piece.

    They are the same in every word, because the merge of lowest rank within the piece is always applied first.

    Args:
        rank: The rank of a merge; None if there is no such merge.
    """
    symbols = list(piece)
    pieces = {piece, *symbols}
    while candidates := [
        (merge_rank, i) for i, merge_rank in enumerate(map(rank, pairwise(symbols))) if merge_rank is not None
    ]:
        _, i = min(candidates)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        pieces.add(symbols[i])
    return pieces


def remove_pieces(backend: tokenizers.Tokenizer, pieces: Collection[str]) -> tokenizers.Tokenizer:
    """The vocabulary without some of its ordinary pieces; ids are renumbered without gaps."""
    specification, removed = json.loads(backend.to_str()), frozenset(pieces)
    ids = [i for i, piece in enumerate(describe(specification).pieces) if piece not in removed]
    reduced: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(select_tokens(specification, ids)))
    return reduced


def select_tokens(specification: Specification, ids: Sequence[int]) -> Specification:
    """The tokenizer with only these tokens, in this order, numbered from 0; they include all special tokens.

    Merges that use or produce other pieces are removed. Every token, also an added one, gets an entry in the model's
    own vocabulary; otherwise tokenizers would renumber added tokens to follow pieces that are appended later.
    """
    pieces, model = describe(specification).pieces, specification["model"]
    new_ids = {old: i for i, old in enumerate(ids)}
    names = [pieces[i] or f"{NO_TEXT}{i}" for i in ids]  # unused ids remain unused
    holes = [_special_token(i, name) for i, name in enumerate(names) if name.startswith(NO_TEXT)]
    added = [{**token, "id": new_ids[token["id"]]} for token in specification["added_tokens"] if token["id"] in new_ids]
    added_ids = {token["id"] for token in added}
    added += [token for token in holes if token["id"] not in added_ids]
    return {
        **specification,
        "model": _unigram(model, ids, names, new_ids) if model["type"] == "Unigram" else _by_piece(model, names),
        "added_tokens": sorted(added, key=lambda token: int(token["id"])),
        "post_processor": _renumber(specification.get("post_processor"), new_ids),
    }


def _unigram(model: Mapping[str, Any], ids: Sequence[int], names: Sequence[str], new_ids: Mapping[int, int]) -> Any:
    scores = [score for _, score in model["vocab"]]
    lowest = min(scores)
    vocabulary = [[name, scores[i] if i < len(scores) else lowest] for i, name in zip(ids, names, strict=True)]
    unknown = model["unk_id"]
    return {**model, "vocab": vocabulary, "unk_id": None if unknown is None else new_ids[unknown]}


def _by_piece(model: Mapping[str, Any], names: Sequence[str]) -> Any:
    vocabulary = {name: i for i, name in enumerate(names)}
    changed = {**model, "vocab": vocabulary}
    if model["type"] == "BPE":
        merges = ((left, right) for left, right in merges_of(model) if left in vocabulary and right in vocabulary)
        changed["merges"] = [[left, right] for left, right in merges if left + right in vocabulary]
    return changed


def _renumber(post_processor: Any, new_ids: Mapping[int, int]) -> Any:
    """A post-processor with new ids. Raises UserError if one of its tokens was removed."""

    def renumbered(piece: str, token: int) -> tuple[str, int]:
        if token not in new_ids:
            raise UserError(f"the vocabulary puts token {token} around texts, although it is not a special token")
        return piece, new_ids[token]

    return replace_added(post_processor, renumbered)


def replace_added(part: Any, new: Callable[[str, int], tuple[str, int]]) -> Any:
    """A post-processor that adds other tokens: those of `sep` and `cls`, and the special tokens of a template.

    new: The piece and id in place of a piece and id.
    """
    if isinstance(part, list):
        return [replace_added(inner, new) for inner in part]
    if not isinstance(part, dict):
        return part
    changed = {key: replace_added(value, new) for key, value in part.items()}
    for key in ("sep", "cls"):
        if key in part:
            changed[key] = list(new(*part[key]))
    if "ids" in part and "tokens" in part:
        pairs = [new(piece, token) for piece, token in zip(part["tokens"], part["ids"], strict=True)]
        changed["tokens"], changed["ids"] = [piece for piece, _ in pairs], [token for _, token in pairs]
    if "special_tokens" in part:  # whose keys, in templates, some readers take for the tokens
        names = {key: " ".join(entry["tokens"]) for key, entry in changed["special_tokens"].items()}
        table = {names[key]: {**entry, "id": names[key]} for key, entry in changed["special_tokens"].items()}
        changed |= {"special_tokens": table} | {key: _rename(part[key], names) for key in ("single", "pair")}
    return changed


def _rename(template: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """A template with other names of its special tokens."""
    return [
        {kind: {**item, "id": names[item["id"]]} if kind == "SpecialToken" else item for kind, item in part.items()}
        for part in template
    ]


def with_scores(specification: Specification, scored: Sequence[tuple[str, float]]) -> Specification:
    """A unigram tokenizer, numbered by `select_tokens`, with pieces and their scores appended."""
    model = specification["model"]
    return {**specification, "model": {**model, "vocab": [*model["vocab"], *map(list, scored)]}}


def with_pieces(specification: Specification, pieces: Sequence[str]) -> Specification:
    """A WordPiece or BPE tokenizer, numbered by `select_tokens`, with pieces appended.

    In BPE each split of a new piece into two existing pieces becomes a merge after all existing merges, so old merges
    apply as before and new ones join what remains.
    """
    model = specification["model"]
    vocabulary, merges = dict(model["vocab"]), list(model.get("merges", ()))
    for piece in pieces:
        splits = ((piece[:end], piece[end:]) for end in range(1, len(piece)))
        merges += [[left, right] for left, right in splits if left in vocabulary and right in vocabulary]
        vocabulary[piece] = len(vocabulary)
    changed = {**model, "vocab": vocabulary} | ({"merges": merges} if model["type"] == "BPE" else {})
    return {**specification, "model": changed}


def with_special_tokens(specification: Specification, pieces: Sequence[str]) -> Specification:
    """A tokenizer, numbered by `select_tokens`, with special tokens appended, into which no text is segmented."""
    model, vocabulary = specification["model"], specification["model"]["vocab"]
    first_id = len(vocabulary)
    if model["type"] == "Unigram":
        lowest = min(score for _, score in vocabulary)
        vocabulary = [*vocabulary, *([piece, lowest] for piece in pieces)]
    else:
        vocabulary = {**vocabulary, **{piece: first_id + i for i, piece in enumerate(pieces)}}
    new = [_special_token(first_id + i, piece) for i, piece in enumerate(pieces)]
    added = [*specification["added_tokens"], *new]
    return {**specification, "model": {**model, "vocab": vocabulary}, "added_tokens": added}


def hide_tokens(specification: Specification, ids: Collection[int]) -> Specification:
    """The tokenizer with these ids as special tokens that do not occur in text; all other tokens keep their ids.

    In BPE all merges that produce or use such a piece are removed. A longer piece that no other merges produce remains
    an entry, but no text is segmented into it.
    """
    model = specification["model"]
    stand_ins = {i: f"{NO_TEXT}{i}" for i in ids}
    vocabulary: Any = model["vocab"]
    if model["type"] == "Unigram":
        vocabulary = [[stand_ins.get(i, piece), score] for i, (piece, score) in enumerate(vocabulary)]
    else:
        vocabulary = {stand_ins.get(i, piece): i for piece, i in vocabulary.items()}
    changed = {**model, "vocab": vocabulary}
    if model["type"] == "BPE":
        hidden = {piece for piece, i in model["vocab"].items() if i in stand_ins}
        pairs = zip(model["merges"], merges_of(model), strict=True)
        changed["merges"] = [merge for merge, (left, right) in pairs if hidden.isdisjoint((left, right, left + right))]
    remaining = [token for token in specification.get("added_tokens", []) if token["id"] not in stand_ins]
    added = [*remaining, *(_special_token(i, piece) for i, piece in stand_ins.items())]
    return {**specification, "model": changed, "added_tokens": sorted(added, key=lambda token: int(token["id"]))}


def _special_token(token: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token, "content": content, **flags}
