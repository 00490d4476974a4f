"""Words of running text, and those that a vocabulary cuts to pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Written without spaces between words: there the downstream vocabulary's own subwords stand in for words.
_SPACELESS = frozenset({"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"})
_SEPARATOR = re.compile(r"[\s'’]+")


def is_spaceless(language: str) -> bool:
    """Whether the language is written without spaces between words."""
    return language.replace("_", "-").split("-")[0].lower() in _SPACELESS


def words_of(text: str) -> Iterator[str]:
    """Words between spaces and apostrophes, without the punctuation around them; nothing with a digit in it."""
    for chunk in _SEPARATOR.split(text):
        start, end = 0, len(chunk)
        while start < end and _is_punctuation(chunk[start]):
            start += 1
        while end > start and _is_punctuation(chunk[end - 1]):
            end -= 1
        word = chunk[start:end]
        if word and not any(character.isdigit() for character in word):
            yield word


def over_segmented_words(
    references: Sequence[str], upstream: Tokenizer, downstream: Tokenizer, language: str, *, at_least: int = 3
) -> dict[str, tuple[str, ...]]:
    """Words of the references that the upstream vocabulary cuts into `at_least` pieces or more, with the pieces.

    In languages without spaces, words are the downstream vocabulary's subwords of two characters or more.
    """
    found: dict[str, Entry] = {}
    if is_spaceless(language):
        for ids in downstream.encode_batch(references):
            entries = (downstream.entries[token] for token in ids)
            found.update({entry.surface: entry for entry in entries if entry and len(entry.surface) > 1})
    else:
        found.update({word: Entry(word, True) for line in references for word in words_of(line)})
    segmented = upstream.segment_batch(list(found.values()))
    return {
        word: tuple(upstream.pieces[token] for token in ids)
        for word, ids in zip(found, segmented, strict=True)
        if len(ids) >= at_least
    }


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
