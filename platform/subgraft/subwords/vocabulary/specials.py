"""The special tokens of a vocabulary to be learnt, and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SENTENCEPIECE_ORDER = ("bos", "pad", "eos", "unk")
WORDPIECE_ORDER = ("pad", "unk", "cls", "sep", "mask")
SENTENCEPIECE_SPELLING = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
WORDPIECE_SPELLING = {
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
    """

    spelling: dict[str, str]
    first: tuple[str, ...]
    last: tuple[str, ...]

    @property
    def first_pieces(self) -> tuple[str, ...]:
        """The pieces of the first roles, each once."""
        return tuple(dict.fromkeys(self.spelling[role] for role in self.first if role in self.spelling))

    @property
    def config(self) -> dict[str, Any]:
        """The contents of tokenizer_config.json."""
        roles = {f"{role}_token": piece for role, piece in self.spelling.items()}
        return {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}


def special_tokens(*, wordpiece: bool, mask: bool, languages: Sequence[str], like: Tokenizer | None) -> SpecialTokens:
    """Special tokens by our convention, or as in `like` for every role and language that it has.

    SentencePiece kinds begin <s> <pad> </s> <unk>, WordPiece [PAD] [UNK] [CLS] [SEP] [MASK]; the others come last, in
    the order of their ids in `like`. Padding and unknown tokens exist even if `like` has none.
    """
    first = WORDPIECE_ORDER if wordpiece else SENTENCEPIECE_ORDER
    spelling = dict(WORDPIECE_SPELLING if wordpiece else SENTENCEPIECE_SPELLING)
    if mask:
        spelling.setdefault("mask", "<mask>")
    if like is not None:
        spelling = _adopted(like, spelling)
    foremost = {spelling[role] for role in first if role in spelling}
    last = [piece for role, piece in spelling.items() if role not in first]
    last += languages
    if like is not None:
        last += like.languages
        position = {piece: i for i, piece in enumerate(like.pieces)}
        last.sort(key=lambda piece: position.get(piece, -1))
    return SpecialTokens(spelling, first, tuple(dict.fromkeys(p for p in last if p not in foremost)))


def _adopted(like: Tokenizer, ours: dict[str, str]) -> dict[str, str]:
    theirs = {role: like.pieces[i] for role, i in like.special.items()}
    # GPT-2 says one word for unknown and for the end of a text: a generator must not learn to stop there.
    if theirs.get("unk") in (theirs.get("bos"), theirs.get("eos"), theirs.get("pad")):
        theirs.pop("unk", None)
    if "eos" not in theirs:
        theirs["eos"] = ours["eos"]
    if "cls" in ours:
        theirs["cls"] = theirs.get("cls", theirs.get("bos", ours["cls"]))
        theirs["sep"] = theirs.get("sep", theirs["eos"])
    return {role: ours[role] for role in ("pad", "unk")} | theirs
