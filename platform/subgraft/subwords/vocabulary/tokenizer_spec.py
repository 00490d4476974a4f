"""Edit the tokens of a parsed tokenizer.json and renumber all ids that refer to them.

Ids occur in the model's vocabulary, among the added tokens, in the post-processor and in the configuration; merges
refer to pieces by spelling.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import tokenizers

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.held_out import NO_TEXT, special_token
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import describe

Specification = dict[str, Any]
Merge = tuple[str, str]


def specification_of(tokenizer: Tokenizer) -> Specification:
    """The parsed tokenizer.json of a vocabulary; a copy that may be modified."""
    parsed: Specification = json.loads(tokenizer.backend.to_str())
    return parsed


def merges_of(model: Mapping[str, Any]) -> Iterator[Merge]:
    """The merges of a BPE model, in rank order."""
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        yield left, right


def merge_ranks(model: Mapping[str, Any]) -> dict[Merge, int]:
    """The rank of each merge of a BPE model, 0 the first."""
    return {merge: rank for rank, merge in enumerate(merges_of(model))}


def merged_from(piece: str, ranks: Mapping[Merge, int]) -> set[str]:
    """The piece, its characters and all intermediate pieces of its merges.

    They do not depend on the word, because the merge of lowest rank within the piece is applied first everywhere.
    """
    symbols = list(piece)
    made = {piece, *symbols}
    while len(symbols) > 1:
        possible = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not possible:
            break
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
    """The tokenizer with these tokens alone, in this order, numbered from 0: all special ones must be among them.

    Merges go that need or make a piece which is not. Every token gets a place in the model's own vocabulary, also an
    added one: else tokenizers would number it again behind whatever is appended.
    """
    pieces, model = describe(specification).pieces, specification["model"]
    new = {old: at for at, old in enumerate(ids)}
    named = [pieces[i] or f"{NO_TEXT}{i}" for i in ids]  # a hole among the ids stays one
    holes = [special_token(at, name) for at, name in enumerate(named) if name.startswith(NO_TEXT)]
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


def as_tokenizer(specification: Specification, like: Tokenizer) -> Tokenizer:
    """A tokenizer of a specification with the special tokens of another one, by role and spelling.

    The configuration names transformers' generic class, because some published classes rebuild their vocabulary by
    their own rules. Roles, which such classes define in code, are written explicitly; ids are not.
    """
    config = {key: value for key, value in like.config.items() if key not in ("added_tokens_decoder", "auto_map")}
    roles = {f"{role}_token": like.pieces[i] for role, i in like.special.items()}
    return Tokenizer(
        Source(json.dumps(specification), {**config, **roles, "tokenizer_class": "PreTrainedTokenizerFast"})
    )
