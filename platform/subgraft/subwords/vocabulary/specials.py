"""The special tokens of a vocabulary to be learnt, and their positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tokenizers
from tokenizers import AddedToken

from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE, GENERIC_CLASS
from subgraft.subwords.vocabulary.symbols import PLACEHOLDER
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_SENTENCEPIECE_ORDER = ("bos", "pad", "eos", "unk")
_WORDPIECE_ORDER = ("pad", "unk", "cls", "sep", "mask")
_SENTENCEPIECE_SPELLING = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
_WORDPIECE_SPELLING = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
    "bos": "[CLS]",
    "eos": "[SEP]",
}


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of a vocabulary. Two roles may share one piece, as bos and eos do in GPT-2.

    Attributes:
        spelling: The piece of each role.
        first: The roles at ids 0, 1, …
        last: The pieces after the learnt ones.
        template: The settings of a chat template.
    """

    spelling: dict[str, str]
    first: tuple[str, ...]
    last: tuple[str, ...]
    template: dict[str, Any] = field(default_factory=dict)

    @property
    def first_pieces(self) -> tuple[str, ...]:
        """The pieces of the first roles, each once."""
        return tuple(dict.fromkeys(self.spelling[role] for role in self.first if role in self.spelling))

    @property
    def pieces(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.spelling.values(), *self.last)))

    @property
    def config(self) -> dict[str, Any]:
        """The contents of tokenizer_config.json."""
        roles = {f"{role}_token": piece for role, piece in self.spelling.items()}
        plain = {"tokenizer_class": GENERIC_CLASS, "clean_up_tokenization_spaces": False}
        return {**plain, **roles, **self.template}


def special_tokens(*, wordpiece: bool, mask: bool, languages: Sequence[str], like: Tokenizer | None) -> SpecialTokens:
    """Special tokens by our convention, or as in `like` for every role and language that it has.

    SentencePiece kinds start with <s> <pad> </s> <unk>, WordPiece with [PAD] [UNK] [CLS] [SEP] [MASK]; all others come
    last, in the order of their ids in `like`, without its placeholders. Padding and unknown tokens are added even if
    `like` has none. The template of a chat model is adopted.
    """
    first = _WORDPIECE_ORDER if wordpiece else _SENTENCEPIECE_ORDER
    spelling = dict(_WORDPIECE_SPELLING if wordpiece else _SENTENCEPIECE_SPELLING)
    if mask:
        spelling.setdefault("mask", "<mask>")
    if like is not None:
        spelling = _adopt_roles(like, spelling)
    first_pieces = {spelling[role] for role in first if role in spelling}
    last = [piece for role, piece in spelling.items() if role not in first]
    last += languages
    if like is not None:
        # Special tokens besides roles and languages, such as marks of entities or turns.
        further = like.special_ids.difference(like.special.values(), like.languages.values())
        others = [piece for i in sorted(further) if (piece := like.pieces[i]) and not PLACEHOLDER.search(piece)]
        last += [*like.languages, *others]
        position = {piece: i for i, piece in enumerate(like.pieces)}
        last.sort(key=lambda piece: position.get(piece, -1))
    template = {} if like is None else {name: value for name, value in like.config.items() if name == CHAT_TEMPLATE}
    return SpecialTokens(spelling, first, tuple(dict.fromkeys(p for p in last if p not in first_pieces)), template)


def _adopt_roles(like: Tokenizer, ours: dict[str, str]) -> dict[str, str]:
    theirs = {role: like.pieces[i] for role, i in like.special.items()}
    # GPT-2 has the same token for unknown text and for the end of a text. They must be distinct, or a generator would
    # learn to stop at unknown text.
    if theirs.get("unk") in (theirs.get("bos"), theirs.get("eos"), theirs.get("pad")):
        theirs.pop("unk", None)
    if "eos" not in theirs:
        theirs["eos"] = ours["eos"]
    if "cls" in ours:
        theirs["cls"] = theirs.get("cls", theirs.get("bos", ours["cls"]))
        theirs["sep"] = theirs.get("sep", theirs["eos"])
    return {role: ours[role] for role in ("pad", "unk")} | theirs


def add_special_tokens(backend: tokenizers.Tokenizer, pieces: Iterable[str]) -> None:
    """Mark pieces as special tokens, or append them; normalisation does not change them."""
    backend.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in pieces])
