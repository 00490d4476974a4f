"""Where the words of a token sequence or a line begin, also in text that is written without white space."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import tokenizers

from subgraft.subwords.vocabulary.entry import SPACE_MARK, Entry, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_checks import refusing

# Scripts that put no white space between words, by how Unicode's names of their characters begin: ideographs, kana,
# Tibetan, and those of South East Asia whose lines break by dictionary (UAX #14, class SA).
UNSPACED = (
    *("CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "HALFWIDTH KATAKANA ", "TIBETAN "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TAI LE ", "TAI THAM ", "TAI VIET ", "NEW TAI LUE ", "AHOM "),
)

# A word with the white space before it; the last one with what follows too.
_SPACED = re.compile(r"\s*\S+\s*$|\s*\S+")


@dataclass(frozen=True)
class WordBoundaries:
    """What a vocabulary's tokens say about words, each a table [V] of bool.

    A word is what white space separates. In scripts without white space it is a token: there is a boundary on either
    side of a character of such a script, wherever tokens meet, so that "Python的文档" is Python (however many tokens
    it has), 的, 文档. Bytes belong to the word that they stand in.

    begins: a word's first token, by the vocabulary's mark, or a special token.  parts: begins with a character of an
    unspaced script.  ends: ends with one, or a special token.  bare: a mark alone, which belongs to what follows.
    """

    begins: np.ndarray
    parts: np.ndarray
    ends: np.ndarray
    bare: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> WordBoundaries:
        special = np.zeros(len(tokenizer), dtype=bool)
        special[list(tokenizer.special_ids)] = True
        pieces = list(zip(tokenizer.pieces, tokenizer.entries, strict=True))
        surfaces = ["" if entry is None else entry.surface for entry in tokenizer.entries]
        return cls(
            begins=special | _table(_marked(piece, entry, tokenizer.mark) for piece, entry in pieces),
            parts=_table(unspaced(surface[:1]) for surface in surfaces),
            ends=special | _table(unspaced(surface[-1:]) for surface in surfaces),
            bare=_table(entry is None and not piece.strip(tokenizer.mark.value) for piece, entry in pieces),
        )

    def words(self, tokens: Sequence[int]) -> list[list[int]]:
        """A token sequence cut into its words; the first token always begins one."""
        if not tokens:
            return []
        ids = np.asarray(tokens)
        following, before = ids[1:], ids[:-1]
        starts = self.begins[following] | self.ends[before] | (self.parts[following] & ~self.bare[before])
        bounds = [0, *(np.flatnonzero(starts) + 1).tolist(), len(tokens)]
        return [list(tokens[first:last]) for first, last in pairwise(bounds)]


def text_words(line: str) -> list[str]:
    """The words of a line without a vocabulary, each with the white space before it: joined, they are the line.

    As above, but in scripts without white space, where no vocabulary cuts the text, a word is a character with the
    marks that combine with it.
    """
    return [word for spaced in _SPACED.findall(line) for word in _parts(spaced)]


def _parts(spaced: str) -> list[str]:
    """What white space separates, cut on either side of a character of an unspaced script."""
    if spaced.isascii():
        return [spaced]
    parts, ends = [""], False
    for character in spaced:
        if unicodedata.category(character).startswith("M"):
            parts[-1] += character
            continue
        alone = unspaced(character)
        if (alone or ends) and parts[-1].strip():
            parts.append(character)
        else:
            parts[-1] += character
        ends = alone
    return parts


def unspaced(character: str) -> bool:
    """Whether a character belongs to a script that is written without white space between words."""
    return not character.isascii() and unicodedata.name(character, "").startswith(UNSPACED)


def _marked(piece: str, entry: Entry | None, mark: Mark) -> bool:
    """Whether a piece says that a word begins with it; also one of bytes that are no whole character."""
    return piece.startswith(mark.value) if entry is None else entry.word_initial


def _table(values: Iterable[bool]) -> np.ndarray:
    return np.fromiter(values, dtype=bool)


# The words of a text, as a vocabulary cuts each by itself, and how often the text has them.
#
# A word with the marks before it, for vocabularies that are given whole lines.
_MARKED = re.compile(f"{SPACE_MARK}*[^{SPACE_MARK}]+|{SPACE_MARK}+")


def word_counts(backend: tokenizers.Tokenizer, lines: Iterable[str]) -> Counter[str]:
    """How often the text has each word: what is cut by itself, a line where there are no spaces.

    Words are normalised, and marked as the vocabulary marks them.
    """
    words: Counter[str] = Counter()
    normalizer, pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    for line in lines:
        normal = line if normalizer is None else normalizer.normalize_str(line)
        parts = [normal] if pre_tokenizer is None else [part for part, _ in pre_tokenizer.pre_tokenize_str(normal)]
        for part in parts:
            words.update(_MARKED.findall(part) if SPACE_MARK in part[1:] else [part])
    del words[""]
    return words


def cut_words(backend: tokenizers.Tokenizer, words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The pieces of each word; what the vocabulary cannot spell is its unknown token.

    Raises UserError for such text where the vocabulary has no unknown token either.
    """
    model = backend.model
    with refusing("this vocabulary cannot cut the text"):
        # By id: the value of an unknown token is, in a unigram vocabulary, the text that it stands for.
        return {word: tuple(model.id_to_token(token.id) for token in model.tokenize(word)) for word in words}
