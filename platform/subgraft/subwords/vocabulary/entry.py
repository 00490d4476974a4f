"""Entries, which compare subwords across vocabularies, and the marks of word boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SPACE_MARK = "▁"
CONTINUATION_MARK = "##"


class Mark(Enum):
    """How a vocabulary marks word boundaries in its pieces.

    SENTENCEPIECE: ▁ before a word's first subword.  WORDPIECE: ## before every other one.
    BYTELEVEL: Ġ (the byte of a space, as a printable character) before a word's first subword.
    """

    SENTENCEPIECE = "▁"
    WORDPIECE = "##"
    BYTELEVEL = "Ġ"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A subword independent of its vocabulary's notation: its surface form, and whether it begins a word.

    Two vocabularies share a subword when their entries are equal: raw piece strings do not compare, since
    "er" begins a word in WordPiece and continues one in SentencePiece.
    """

    surface: str
    word_initial: bool


def parse_piece(piece: str, mark: Mark) -> Entry | None:
    """The entry of a raw piece string; None for a bare mark and for bytes that are not valid text."""
    if mark is Mark.WORDPIECE:
        continues = piece.startswith(CONTINUATION_MARK) and len(piece) > len(CONTINUATION_MARK)
        return _entry(piece.removeprefix(CONTINUATION_MARK) if continues else piece, not continues)
    if mark is Mark.SENTENCEPIECE:
        return _entry(piece.removeprefix(SPACE_MARK).replace(SPACE_MARK, " "), piece.startswith(SPACE_MARK))
    try:
        text = bytes(BYTE_OF_CHARACTER[character] for character in piece).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return None
    return _entry(text.removeprefix(" "), text.startswith(" "))


def symbol_entry(symbol: str, mark: Mark) -> Entry | None:
    """The entry of a user-defined symbol, which is spelled as in a text; None for white space.

    It begins a word, because the words and tags that users define mean what they mean as words of their own.
    """
    text = symbol.replace(SPACE_MARK, " ") if mark is Mark.SENTENCEPIECE else symbol
    return _entry(text.strip(), True)


def _entry(surface: str, word_initial: bool) -> Entry | None:
    return Entry(surface, word_initial) if surface and not surface.isspace() else None


def spell_entry(entry: Entry, mark: Mark) -> str:
    """The raw piece string of an entry under a mark: the inverse of `parse_piece`."""
    if mark is Mark.WORDPIECE:
        return entry.surface if entry.word_initial else CONTINUATION_MARK + entry.surface
    if mark is Mark.SENTENCEPIECE:
        return (SPACE_MARK if entry.word_initial else "") + entry.surface.replace(" ", SPACE_MARK)
    text = (" " if entry.word_initial else "") + entry.surface
    return "".join(CHARACTER_OF_BYTE[byte] for byte in text.encode("utf-8"))


def piece_length(piece: str) -> int:
    """The number of characters of a WordPiece piece, without the continuation mark."""
    return len(piece.removeprefix(CONTINUATION_MARK))


def _printable_bytes() -> dict[int, str]:
    """GPT-2's spelling of the 256 bytes (Radford et al. 2019): printable Latin-1 as itself, the rest from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in sorted(printable)} | {b: chr(256 + i) for i, b in enumerate(others)}


CHARACTER_OF_BYTE = _printable_bytes()
BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
