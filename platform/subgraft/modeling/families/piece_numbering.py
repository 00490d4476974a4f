"""Vocabularies in two files: a SentencePiece model that segments text, and a JSON file with the ids of the pieces."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.json_io import object_in, read_bytes, read_object
from subgraft.base.security.tokenizer_checks import as_user_error, require_few_pieces
from subgraft.subwords.vocabulary.directory import Source, reading_settings
from subgraft.subwords.vocabulary.sentencepiece_model import convert
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import NO_TEXT

# The score per character of pieces that the side's model lacks, below that of any segmentation into the side's pieces.
# So a piece of the other language is used only for characters that the side does not have, as in a Marian tokenizer.
# (Marian's treats a run of such characters as one unknown piece; here each of them is looked up.)
_FOREIGN_SCORE = -1e6


def tokenizer_with_ids(
    model: Path, ids: Mapping[str, int], special: Iterable[str], config: Mapping[str, Any]
) -> Tokenizer:
    """The tokenizer of a SentencePiece model with other ids. Raises UserError for a model that cannot be read.

    Args:
        model: The SentencePiece model file.
        ids: Ids by piece from `read_numbering`, possibly with additional pieces; they include <unk>.
        special: Pieces that are special tokens.
        config: Roles of special tokens, as in tokenizer_config.json.
    """
    try:
        with as_user_error("not in a form that is known"):
            specification = json.loads(convert(read_bytes(model)).to_str())
            model_with_ids: dict[str, Any] = specification["model"]
            if model_with_ids["type"] == "Unigram":
                scores, ordered = dict(model_with_ids["vocab"]), sorted(ids, key=lambda piece: ids[piece])
                vocabulary = [(piece, scores.get(piece, _FOREIGN_SCORE * len(piece))) for piece in ordered]
                model_with_ids |= {"vocab": vocabulary, "unk_id": ids["<unk>"]}
            else:  # pieces that the numbering lacks are left out
                pairs = model_with_ids["merges"]
                merges = [(left, right) for left, right in pairs if {left, right, left + right} <= ids.keys()]
                model_with_ids |= {"vocab": dict(ids), "merges": merges, "unk_token": "<unk>"}
            # Control pieces, such as <s>, which do not occur in segmented text, and user-defined symbols, which do.
            added = {token["content"]: token for token in specification["added_tokens"] if token["content"] in ids}
            added |= {piece: _added_token(piece) for piece in special}
            tokens = {ids[piece]: {**token, "id": ids[piece]} for piece, token in added.items()}
            tokens |= _tokens_of_users(model.parent, ids)
            specification["added_tokens"] = [tokens[i] for i in sorted(tokens)]
            settings = reading_settings(object_in(model.parent / "tokenizer_config.json"), ids.keys())
            return Tokenizer(Source(json.dumps(specification, ensure_ascii=False), {**settings, **config}))
    except UserError as error:
        what = f"this vocabulary cannot be read: {error.what}"
        raise UserError(what, where=str(model), hint=error.hint) from error


def _tokens_of_users(directory: Path, ids: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """Tokens by id that users of transformers added behind the pieces. They are found in the text as it is written."""
    flagged = object_in(directory / "tokenizer_config.json").get("added_tokens_decoder") or {}
    numbered = {i: {"content": piece} for piece, i in object_in(directory / "added_tokens.json").items()}
    numbered |= {int(i): token for i, token in flagged.items()}
    plain = {**_added_token(""), "special": False}
    tokens = {
        i: {**plain, **{key: token[key] for key in plain.keys() & token.keys()}, "normalized": False, "id": i}
        for i, token in numbered.items()
        if i >= len(ids) and token["content"] not in ids
    }
    require_few_pieces(max(tokens, default=0))
    spare = (i for i in range(len(ids), max(tokens, default=0)) if i not in tokens)
    return tokens | {i: {**_added_token(f"{NO_TEXT}{i}"), "id": i} for i in spare}


def read_numbering(path: Path, needed: Collection[str]) -> dict[str, int]:
    """Ids 0, 1, … by piece. Raises UserError for other ids, and where one of the needed pieces is missing."""
    ids = read_object(path)
    if not all(type(i) is int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise UserError("no numbering of pieces: its ids are not 0, 1, …", where=str(path))
    if missing := [piece for piece in needed if piece not in ids]:
        raise UserError(f"no numbering of pieces: {', '.join(missing)} is missing", where=str(path))
    return ids


def _added_token(piece: str) -> dict[str, Any]:
    return {
        "content": piece,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
