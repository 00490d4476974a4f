"""A vocabulary as if it lacked some of its subwords, while every other one keeps its id."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

# A code point that no text holds (Unicode's noncharacters), so that nothing is ever cut into such a piece.
NO_TEXT = "\uffff"


def without(specification: dict[str, Any], ids: Collection[int]) -> dict[str, Any]:
    """A parsed tokenizer.json in which these ids are special tokens that do not occur in text.

    In BPE all merges that produce or use such a piece are removed. A longer piece that no other merges produce remains
    an entry, but no text is segmented into it.
    """
    model = specification["model"]
    stand_in = {i: f"{NO_TEXT}{i}" for i in ids}
    changed = {**model, "vocab": _renamed(model["vocab"], stand_in)}
    if model["type"] == "BPE":
        gone = {piece for piece, i in model["vocab"].items() if i in stand_in}
        changed["merges"] = [merge for merge in model["merges"] if gone.isdisjoint(_pieces(merge))]
    added = [*specification.get("added_tokens", []), *(special_token(i, piece) for i, piece in stand_in.items())]
    return {**specification, "model": changed, "added_tokens": sorted(added, key=lambda token: int(token["id"]))}


def _renamed(vocabulary: Any, stand_in: dict[int, str]) -> Any:
    """Pieces by id (unigram) or ids by piece, with other names for some."""
    if isinstance(vocabulary, list):
        return [[stand_in.get(i, piece), score] for i, (piece, score) in enumerate(vocabulary)]
    return {stand_in.get(i, piece): i for piece, i in vocabulary.items()}


def _pieces(merge: Any) -> tuple[str, str, str]:
    """Both parts of a merge, and its result."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right, left + right


def special_token(token: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token, "content": content, **flags}
