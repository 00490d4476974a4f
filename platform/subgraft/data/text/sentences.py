"""Where the sentences and words of a text end, by punctuation and white space alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

# The end of a sentence: its mark with quotes and brackets that close behind it, then white space, which languages
# without spaces do not have. An abbreviation before a capital passes for one.
_ENDS = re.compile(r"[.!?…]+[\"'”’)\]]*\s+(?=\S)|[。！？]+[」』”’）]*|\n+")
_SPACES = re.compile(r"\s+")


def sentence_limits(text: str) -> list[int]:
    """The bounds of all sentences, with 0 and the end of the text, ascending."""
    return _with_ends((match.end() for match in _ENDS.finditer(text) if not text[match.end() :][:1].islower()), text)


def word_limits(text: str) -> list[int]:
    """The same of all words."""
    return _with_ends((match.end() for match in _SPACES.finditer(text)), text)


def _with_ends(places: Iterator[int], text: str) -> list[int]:
    return sorted({0, *places, len(text)})
