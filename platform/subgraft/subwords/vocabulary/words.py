"""Word boundaries in token sequences and lines, also in text without white space; word counts of a text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import tokenizers
from tokenizers import models

from subgraft.base.security.tokenizer_checks import as_user_error
from subgraft.subwords.vocabulary.entry import SPACE_MARK, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import NO_TEXT

# Prefixes of the Unicode names of characters in scripts without white space between words: ideographs, kana, Tibetan,
# and the scripts of South East Asia whose lines are broken by dictionary (UAX #14, class SA).
UNSPACED = (
    *("CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "HALFWIDTH KATAKANA ", "TIBETAN "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TAI LE ", "TAI THAM ", "TAI VIET ", "NEW TAI LUE ", "AHOM "),
)

# A word with the preceding white space; the last word also with the white space that follows it.
_SPACED = re.compile(r"\s*\S+\s*$|\s*\S+")


@dataclass(frozen=True)
class WordBoundaries:
    """Word boundaries by token id; each attribute is an array [V] of bool.

    Words are separated by white space. In scripts without white space every token is a word: token boundaries next to a
    character of such a script are word boundaries, so "Python的文档" has the words Python (of any number of tokens),
    的, 文档. Byte tokens belong to the surrounding word.

    Attributes:
        begins: The token begins a word by the vocabulary's mark, or is a special token.
        parts: The token begins with a character of an unspaced script.
        ends: The token ends with such a character, or is a special token.
        bare: The token is a mark alone, which belongs to the following token.
    """

    begins: np.ndarray
    parts: np.ndarray
    ends: np.ndarray
    bare: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> WordBoundaries:
        special = np.zeros(len(tokenizer), dtype=bool)
        special[list(tokenizer.special_ids)] = True
        # A space before a user-defined symbol is a mark of its own, except in WordPiece, which has no such marks.
        entries = tokenizer.entries if tokenizer.mark is Mark.WORDPIECE else tokenizer.word_entries
        pieces = list(zip(tokenizer.pieces, entries, strict=True))
        mark = tokenizer.mark.value
        # Also for pieces of bytes that are not a complete character.
        begins = (piece.startswith(mark) if entry is None else entry.word_initial for piece, entry in pieces)
        surfaces = ["" if entry is None else entry.surface for entry in entries]
        return cls(
            begins=special | _bool_array(begins),
            parts=_bool_array(unspaced(surface[:1]) for surface in surfaces),
            ends=special | _bool_array(unspaced(surface[-1:]) for surface in surfaces),
            bare=_bool_array(entry is None and not piece.strip(mark) for piece, entry in pieces),
        )

    def words(self, tokens: Sequence[int]) -> list[list[int]]:
        """The words of a token sequence; the first token always begins one."""
        if not tokens:
            return []
        ids = np.asarray(tokens)
        following, before = ids[1:], ids[:-1]
        starts = self.begins[following] | self.ends[before] | (self.parts[following] & ~self.bare[before])
        bounds = [0, *(np.flatnonzero(starts) + 1).tolist(), len(tokens)]
        return [list(tokens[first:last]) for first, last in pairwise(bounds)]


def text_words(line: str) -> list[str]:
    """The words of a line, without a vocabulary, each with the white space before it; joined, they are the line.

    In scripts without white space a word is a character with its combining marks.
    """
    return [word for spaced in _SPACED.findall(line) for word in _split_unspaced(spaced)]


def _split_unspaced(word: str) -> list[str]:
    """A word split on either side of each character of an unspaced script."""
    if word.isascii():
        return [word]
    parts, after_unspaced = [""], False
    for character in word:
        if unicodedata.category(character).startswith("M"):
            parts[-1] += character
            continue
        is_unspaced = unspaced(character)
        if (is_unspaced or after_unspaced) and parts[-1].strip():
            parts.append(character)
        else:
            parts[-1] += character
        after_unspaced = is_unspaced
    return parts


@lru_cache(maxsize=1 << 16)
def unspaced(character: str) -> bool:
    """Whether a character belongs to a script that is written without white space between words."""
    return not character.isascii() and unicodedata.name(character, "").startswith(UNSPACED)


def _bool_array(values: Iterable[bool]) -> np.ndarray:
    return np.fromiter(values, dtype=bool)


# A word with the preceding marks, for vocabularies that do not split lines into words.
_MARKED = re.compile(f"{SPACE_MARK}*[^{SPACE_MARK}]+|{SPACE_MARK}+")


def word_counts(backend: tokenizers.Tokenizer, lines: Iterable[str]) -> Counter[str]:
    """Counts of the units that the vocabulary segments separately: words, or lines in text without spaces.

    Words are normalised and have the vocabulary's marks. User-defined symbols are not counted.
    """
    words: Counter[str] = Counter()
    split = WordSplitter(backend)
    for line in lines:
        for part, is_symbol in split(line):
            if not is_symbol:
                words.update(_MARKED.findall(part) if SPACE_MARK in part[1:] else [part])
    return words


class WordSplitter:
    """Splits texts as a tokenizer does before its model segments them: at user-defined symbols, then into words."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # A model without pieces: the value of each word's one unknown token is the word.
        self._splitter = tokenizers.Tokenizer(models.Unigram([(NO_TEXT, 0.0)], 0))
        if backend.normalizer is not None:
            self._splitter.normalizer = backend.normalizer
        if backend.pre_tokenizer is not None:
            self._splitter.pre_tokenizer = backend.pre_tokenizer
        added = backend.get_added_tokens_decoder().values()
        self._splitter.add_tokens([token for token in added if not token.special])

    def __call__(self, text: str) -> list[tuple[str, bool]]:
        """The words of a text, normalised and with the vocabulary's marks; whether each is a user-defined symbol."""
        encoding = self._splitter.encode(text, add_special_tokens=False)
        return [(word, token != 0) for word, token in zip(encoding.tokens, encoding.ids, strict=True)]


def segment_words(backend: tokenizers.Tokenizer, words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The pieces of each word; text that the vocabulary cannot spell becomes its unknown token.

    Raises UserError for such text where the vocabulary has no unknown token either.
    """
    model = backend.model
    with as_user_error("this vocabulary cannot segment the text"):
        # Look pieces up by id, because the value of an unknown token in a unigram vocabulary is the text it stands for.
        return {word: tuple(model.id_to_token(token.id) for token in model.tokenize(word)) for word in words}


def piece_counts(words: Mapping[str, int], segmentations: Mapping[str, Iterable[str]]) -> Counter[str]:
    """How often each piece occurs in a text of these words, by the pieces of each word."""
    counts: Counter[str] = Counter()
    for word, pieces in segmentations.items():
        for piece in pieces:
            counts[piece] += words[word]
    return counts
