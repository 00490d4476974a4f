"""Boundaries of sentences and words in a text, by punctuation and white space alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

# The end of a sentence: its punctuation mark, closing quotes and brackets, and white space, except in languages without
# spaces. An abbreviation before a capital letter is mistaken for one.
_ENDS = re.compile(r"[.!?…]+[\"'”’)\]]*\s+(?=\S)|[。！？]+[」』”’）]*|\n+")
_SPACES = re.compile(r"\s+")


def sentence_limits(text: str) -> list[int]:
    """The bounds of all sentences, with 0 and the end of the text, ascending."""
    return _with_ends((match.end() for match in _ENDS.finditer(text) if not text[match.end() :][:1].islower()), text)


def word_limits(text: str) -> list[int]:
    """The bounds of all words, with 0 and the end of the text, ascending."""
    return _with_ends((match.end() for match in _SPACES.finditer(text)), text)


def _with_ends(places: Iterator[int], text: str) -> list[int]:
    return sorted({0, *places, len(text)})
