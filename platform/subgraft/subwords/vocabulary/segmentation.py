"""A text as a vocabulary segments it, for readers: which tokens spell which characters.

A token may be a part of a character as readers see it: a byte of an emoji, or a vowel sign of Devanagari. Such
tokens share a cell with the others of their character, because a page cannot draw half a character.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal, NamedTuple

from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER, SPACE_MARK, Mark
from subgraft.subwords.vocabulary.spelling import byte_tokens
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer

Kind = Literal["", "unknown", "bytes", "part"]
# Signs that join the letters around them in the scripts with conjuncts (Unicode 15.1, annex 29, rule GB9c).
_VIRAMAS = frozenset("\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d")
_JOINERS = frozenset("\u200c\u200d")
# What white space is shown as.
_SHOWN: dict[int, str] = {ord(" "): "␣", ord("\n"): "↵", ord("\t"): "⇥"}


class Cell(NamedTuple):
    """A stretch of a text, and the tokens that spell it; none for characters that the vocabulary drops.

    kind: `unknown` or `bytes` if one of them is the unknown token or spells a single byte; `part` if several spell it.
    """

    text: str
    tokens: tuple[int, ...]
    kind: Kind


@dataclass(frozen=True)
class Segmentation:
    """A text in cells.

    Attributes:
        cells: Their texts, joined, are the text.
        tokens, unknown, byte_tokens: Numbers of tokens.
        decoded: The text that decoding gives back.
    """

    cells: tuple[Cell, ...]
    tokens: int
    unknown: int
    byte_tokens: int
    decoded: str


def segment(tokenizer: Tokenizer, text: str) -> Segmentation:
    """Segment a text as the model reads it, without special tokens around it."""
    ((ids, ends),) = tokenizer.encode_with_ends([text])
    unknown, of_bytes = tokenizer.special.get("unk"), byte_tokens(tokenizer)

    def kind(tokens: list[int]) -> Kind:
        if unknown in tokens:
            return "unknown"
        if not of_bytes.isdisjoint(tokens):
            return "bytes"
        return "part" if sum(not _is_mark(tokenizer, token) for token in tokens) > 1 else ""

    stretches = _stretches(tokenizer, text, ids, ends)
    return Segmentation(
        cells=tuple(Cell(stretch, tuple(tokens), kind(tokens)) for stretch, tokens in stretches),
        tokens=len(ids),
        unknown=sum(token == unknown for token in ids),
        byte_tokens=sum(token in of_bytes for token in ids),
        decoded=tokenizer.decode(ids),
    )


def readable(tokenizer: Tokenizer, token: int) -> str:
    """A token as people read it: ␣ is a space, ↵ the end of a line, and <0xC3> a byte of a part of a character.

    WordPiece's ## before the continuation of a word, and special tokens, stay.
    """
    piece = tokenizer.pieces[token]
    if token in tokenizer.symbols or token in tokenizer.special_ids or tokenizer.mark is Mark.WORDPIECE:
        return piece
    if tokenizer.mark is Mark.SENTENCEPIECE:
        return piece.translate(_SHOWN | {ord(SPACE_MARK): "␣"})
    if not all(character in BYTE_OF_CHARACTER for character in piece):
        return piece.translate(_SHOWN)  # an added token
    spelled = bytes(BYTE_OF_CHARACTER[character] for character in piece).decode("utf-8", "surrogateescape")
    # A byte that is not valid text is U+DC00 and its number.
    return "".join(f"<0x{ord(one) - 0xDC00:02X}>" if "\udc80" <= one <= "\udcff" else one for one in spelled).translate(
        _SHOWN
    )


def _is_mark(tokenizer: Tokenizer, token: int) -> bool:
    return tokenizer.pieces[token] == tokenizer.mark.value


def _stretches(tokenizer: Tokenizer, text: str, ids: list[int], ends: list[int]) -> list[tuple[str, list[int]]]:
    """The smallest stretches that begin and end between tokens and between characters, with their tokens."""
    stretches: list[tuple[str, list[int]]] = []
    start, waiting = 0, list[int]()
    for token, end in zip(ids, ends, strict=True):
        if end == NO_OFFSET and text[start : start + 1] == " " and _is_mark(tokenizer, token):
            end = start + 1  # a space of its own, and not the mark before the first word
        if start >= end > NO_OFFSET and stretches and not waiting:
            stretches[-1][1].append(token)  # a further part of the last character
            continue
        waiting.append(token)
        if end > start and not _divides_character(text, end):
            stretches.append((text[start:end], waiting))
            start, waiting = end, []
    if start < len(text) or waiting:
        stretches.append((text[start:], waiting))
    return stretches


def _divides_character(text: str, at: int) -> bool:
    """Whether readers see the characters before and after this place as one (the main rules of Unicode's annex 29)."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if unicodedata.category(after)[0] == "M" or after in _JOINERS or before == "\u200d":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":  # skin colours, tags
        return True
    if "\u1160" <= after <= "\u11ff":  # vowels and finals of Hangul
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    if _is_regional(before) and _is_regional(after):  # two of them are a flag
        first = at - 1
        while first > 0 and _is_regional(text[first - 1]):
            first -= 1
        return (at - first) % 2 == 1
    return before in _VIRAMAS and unicodedata.category(after) == "Lo"


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
