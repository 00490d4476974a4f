"""The pieces, special roles and language codes of a parsed tokenizer.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base.security.text_growth import component_steps
from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER, Mark

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
LANGUAGE_CODE = re.compile(
    r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,3}__|>>[A-Za-z_]{2,16}<<|<2[a-z]{2,3}(?:_[A-Za-z]{2,4}){0,2}>"
)
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Roles that another role's token has where they have none.
SUBSTITUTES = {"bos": "cls", "eos": "sep"}
# The conventional spellings of roles, for directories whose configuration leaves them to the tokenizer's class.
CONVENTIONAL_SPELLINGS = {
    "bos": ("<s>", "<|endoftext|>"),
    "eos": ("</s>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]", "<|endoftext|>"),
    "sep": ("[SEP]", "<sep>"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]", "<cls>"),
    "mask": ("<mask>", "[MASK]"),
}


@dataclass(frozen=True)
class Description:
    """Pieces by id, their costs (float64 [V], lower is more frequent), and the ids that are not ordinary subwords.

    Attributes:
        added: All added tokens.
        special: Those that are special, and ids without a piece.
        merged: Added tokens that BPE also forms from other pieces.
    """

    mark: Mark
    pieces: tuple[str, ...]
    costs: NDArray[np.float64]
    added: frozenset[int]
    special: frozenset[int]
    merged: frozenset[int]
    unknown: int | None
    byte_ids: Mapping[int, int]
    byte_pieces: frozenset[int]


def describe(specification: Mapping[str, Any]) -> Description:
    """Read a parsed tokenizer.json. Raises ValueError for unsupported kinds of model."""
    model = specification["model"]
    mark = _mark(specification)
    is_unigram = model["type"] == "Unigram"
    if is_unigram:
        model_pieces = {i: piece for i, (piece, _) in enumerate(model["vocab"])}
    else:
        model_pieces = {i: piece for piece, i in model["vocab"].items()}
    added_tokens = specification.get("added_tokens") or []
    added = {token["id"]: token["content"] for token in added_tokens}
    size = 1 + max([*model_pieces, *added], default=-1)
    piece_of = model_pieces | added
    pieces = tuple([piece_of.get(i, "") for i in range(size)])
    ids = dict(zip(reversed(pieces), range(size - 1, -1, -1), strict=True))
    byte_ids = _byte_ids(ids, mark, bool(model.get("byte_fallback")))
    unknown = model["unk_id"] if is_unigram else ids.get(model.get("unk_token"))
    costs = _costs(model, pieces)
    return Description(
        mark=mark,
        pieces=pieces,
        costs=costs,
        added=frozenset(added),
        special=frozenset(token["id"] for token in added_tokens if token.get("special"))
        | {i for i, piece in enumerate(pieces) if not piece},
        merged=frozenset(i for i in added if model["type"] == "BPE" and costs[i] >= 0),
        unknown=unknown,
        byte_ids=byte_ids,
        byte_pieces=frozenset(() if mark is Mark.BYTELEVEL else byte_ids.values()),
    )


def _mark(specification: Mapping[str, Any]) -> Mark:
    kind = specification["model"]["type"]
    if kind == "WordPiece":
        if specification["model"].get("continuing_subword_prefix") != Mark.WORDPIECE.value:
            raise ValueError("a WordPiece vocabulary whose continuations are not marked ##")
        return Mark.WORDPIECE
    if kind not in ("Unigram", "BPE"):
        raise ValueError(f"a {kind} vocabulary")
    steps = [*component_steps(specification.get("pre_tokenizer")), *component_steps(specification.get("decoder"))]
    return Mark.BYTELEVEL if any(step["type"] == "ByteLevel" for step in steps) else Mark.SENTENCEPIECE


def merges_of(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The merges of a BPE model, in rank order."""
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        yield left, right


def _costs(model: Mapping[str, Any], pieces: tuple[str, ...]) -> NDArray[np.float64]:
    """Unigram: negative log probability. BPE: rank of the merge that produces the piece. WordPiece: zero."""
    costs = np.zeros(len(pieces))
    if model["type"] == "Unigram":
        costs[: len(model["vocab"])] = [-score for _, score in model["vocab"]]
    elif model["type"] == "BPE":
        ranks = {left + right: rank for rank, (left, right) in reversed(list(enumerate(merges_of(model))))}
        costs[:] = [ranks.get(piece, -1) for piece in pieces]
    return costs


def _byte_ids(ids: Mapping[str, int], mark: Mark, byte_fallback: bool) -> dict[int, int]:
    if mark is Mark.BYTELEVEL:
        return {byte: ids[character] for character, byte in BYTE_OF_CHARACTER.items() if character in ids}
    if not byte_fallback:
        return {}
    matches = ((BYTE_PIECE.fullmatch(piece), i) for piece, i in ids.items())
    return {int(match[1], 16): i for match, i in matches if match}


def special_roles(description: Description, config: Mapping[str, Any]) -> dict[str, int]:
    """Ids by role, from the configuration or else by convention.

    BERT-like vocabularies begin and end sentences with cls and sep, which then also serve as bos and eos.
    """
    unknown = set() if description.unknown is None else {description.unknown}
    ids = {description.pieces[i]: i for i in sorted(description.added | unknown, reverse=True)}
    roles: dict[str, int] = {}
    for role in ROLES:
        setting = config.get(f"{role}_token", CONVENTIONAL_SPELLINGS[role])
        spelling = setting["content"] if isinstance(setting, Mapping) else setting
        spellings = (spelling,) if isinstance(spelling, str) else (spelling or ())
        ids_of_role = [ids[candidate] for candidate in spellings if candidate in ids]
        if ids_of_role:
            roles[role] = ids_of_role[0]
    if "unk" not in roles and description.unknown is not None:
        roles["unk"] = description.unknown
    for role, substitute in SUBSTITUTES.items():
        if role not in roles and substitute in roles:
            roles[role] = roles[substitute]
    return roles


def language_codes(description: Description) -> dict[str, int]:
    """Ids of the language codes among the added tokens.

    Formats: en_XX (mBART), zho_Hans (NLLB), __en__ (M2M-100), >>fra<< (multilingual Marian), <2fr> (MADLAD-400).
    """
    added = ((description.pieces[i], i) for i in sorted(description.added))
    return {piece: i for piece, i in added if LANGUAGE_CODE.fullmatch(piece)}


def named_special(description: Description, config: Mapping[str, Any]) -> frozenset[int]:
    """Ids of the added tokens that only the configuration calls special."""
    named: list[Any] = []
    for setting in (config.get("additional_special_tokens"), config.get("extra_special_tokens")):
        named += setting.values() if isinstance(setting, Mapping) else setting if isinstance(setting, list) else ()
    flags = config.get("added_tokens_decoder")
    flagged = flags.values() if isinstance(flags, Mapping) else ()
    named += [each for each in flagged if isinstance(each, Mapping) and each.get("special")]
    contents = [each.get("content") if isinstance(each, Mapping) else each for each in named]
    return frozenset(i for i in description.added if description.pieces[i] in contents)
