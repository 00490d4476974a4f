"""Units of a line that are hidden as a whole: words, phrases and entities (ERNIE; Sun et al., 2019, section 3.2).

Without annotation, phrases are collocations of the corpus itself, and entities are runs of capitalised words. Both are
rules for languages that put spaces between words; in other scripts each character is a word, as in the paper.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from subgraft.subwords.vocabulary.words import text_words

# [start, end) in characters.
Span: TypeAlias = tuple[int, int]
# The same, and the entity that it mentions.
Mention: TypeAlias = tuple[int, int, int]
# Combining marks and joiners are parts of words, but not in `\w`; `words` puts _MARK in their place.
_MARK, _JOINERS = "\0", "\u200c\u200d"
_NOT_IN_WORDS = re.compile(r"[^\w\s]")
_WORD = re.compile(rf"\w[\w{_MARK}]*(?:['’-]\w[\w{_MARK}]*)*")
# A pair of words is a collocation if it has at least this many occurrences, and a score over the threshold.
_MIN_COUNT, _THRESHOLD = 5, 10.0
# For each level, the bit that is set at tokens that begin a unit of that level.
_BITS: dict[str, int] = {"word": 1, "phrase": 2, "entity": 4}
ALL_BITS = 7


def words(line: str) -> list[Span]:
    """The words of a line, without punctuation marks."""
    spans, start = list[Span](), 0
    for text in text_words(line):
        marked = text if text.isascii() else _NOT_IN_WORDS.sub(_marked, text)
        spans += ((start + match.start(), start + match.end()) for match in _WORD.finditer(marked))
        start += len(text)
    return spans


def _marked(match: re.Match[str]) -> str:
    character = match[0]
    return _MARK if character in _JOINERS or unicodedata.category(character).startswith("M") else character


class Collocations(NamedTuple):
    """Pairs of words, in lower case, that are phrases or part of one."""

    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Collocations:
        """The pairs of adjacent words of a text that occur together more often than by chance.

        (count(a b) - 5) V / (count(a) count(b)) is over 10, for V different words: Mikolov et al. (NeurIPS 2013),
        equation 6, scaled by V, with the discount and the threshold of gensim's `Phrases`.
        """
        single, double = Counter[str](), Counter[tuple[str, str]]()
        for line in lines:
            spans = words(line)
            single.update(_lower(line, span) for span in spans)
            neighbours = ((one, other) for one, other in pairwise(spans) if _adjacent(line, one, other))
            double.update((_lower(line, one), _lower(line, other)) for one, other in neighbours)
        size = len(single)
        return cls(
            frozenset(
                pair
                for pair, count in double.items()
                if (count - _MIN_COUNT) * size > _THRESHOLD * single[pair[0]] * single[pair[1]]
            )
        )

    def phrases(self, line: str) -> list[Span]:
        """Runs of words in which any two neighbours are a collocation."""

        def is_collocation(one: Span, other: Span) -> bool:
            return _adjacent(line, one, other) and (_lower(line, one), _lower(line, other)) in self.pairs

        return [run for run, count in _runs(words(line), is_collocation) if count > 1]


def entities(line: str) -> list[Span]:
    """Runs of capitalised words, except single words at the beginning of a sentence and single letters."""
    capitalised = [span for span in words(line) if line[span[0]].isupper()]
    runs = _runs(capitalised, lambda one, other: _adjacent(line, one, other))
    return [
        (start, end)
        for (start, end), count in runs
        if end - start > 1 and (count > 1 or not _begins_sentence(line, start))
    ]


def unit_bits(ends: Sequence[int], line: str, phrases: Sequence[Span], entity_spans: Sequence[Span]) -> list[int]:
    """For each token of a line, the levels of which it begins a unit, as bits.

    Units of phrases are the phrases and the words outside of them; entities likewise. Where spans overlap, the first
    counts. A token of a punctuation mark is a unit of its own.

    Args:
        ends: where each token ends in the line, in characters; negative for a token without characters, which belongs
            to the next one.
        line: the line.
        phrases: spans of phrases.
        entity_spans: spans of entities.
    """
    by_word = np.arange(len(line) + 1)
    for start, end in words(line):
        by_word[start:end] = start
    ends_so_far = np.array(list(accumulate(ends, max, initial=0))[1:], dtype=np.int64)
    without_offset = np.array(ends) < 0
    bits = np.zeros(len(ends_so_far), dtype=np.int64)
    levels: Mapping[str, Sequence[Span]] = {"word": (), "phrase": phrases, "entity": entity_spans}
    for level, spans in levels.items():
        unit = by_word.copy()
        for start, end in _without_overlaps(spans):
            unit[start:end] = start
        unit_of_token = unit[np.maximum(ends_so_far - 1, 0)]
        for token in np.flatnonzero(without_offset)[::-1]:
            unit_of_token[token] = unit_of_token[min(token + 1, len(ends_so_far) - 1)]
        is_start = np.ones(len(ends_so_far), dtype=np.bool_)
        is_start[1:] = unit_of_token[1:] != unit_of_token[:-1]
        bits |= is_start * _BITS[level]
    return bits.tolist()


def unit_sizes(bits: Sequence[int], unit: str) -> np.ndarray:
    """The number of tokens of each unit of a sentence, in order."""
    if unit == "piece":
        return np.ones(len(bits), dtype=np.int64)
    starts = np.flatnonzero(np.bitwise_and(bits, _BITS[unit]))
    if not len(starts) or starts[0]:  # a sentence that lacks its beginning
        starts = np.concatenate([[0], starts])
    return np.diff(np.append(starts, len(bits)))


def _runs(spans: Sequence[Span], joins: Callable[[Span, Span], bool]) -> Iterator[tuple[Span, int]]:
    """The longest runs of spans in which `joins` holds for any two neighbours, and the number of spans in each."""
    run: list[Span] = []
    for span in spans:
        if run and not joins(run[-1], span):
            yield (run[0][0], run[-1][1]), len(run)
            run = []
        run.append(span)
    if run:
        yield (run[0][0], run[-1][1]), len(run)


def _lower(line: str, span: Span) -> str:
    return line[span[0] : span[1]].lower()


def _adjacent(line: str, one: Span, other: Span) -> bool:
    """Whether there is nothing but space between two words."""
    return line[one[1] : other[0]].isspace() or one[1] == other[0]


def _begins_sentence(line: str, start: int) -> bool:
    before = line[:start].rstrip(" \"'“”‘’«»([-–—")
    return not before or before[-1] in ".!?:…"


def _without_overlaps(spans: Sequence[Span]) -> Iterator[Span]:
    """Spans in order, without those that overlap an earlier one."""
    previous_end = 0
    for start, end in sorted(spans):
        if start >= previous_end:
            yield start, end
            previous_end = end


def first_tokens(ends: Sequence[int], mentions: Sequence[Mention]) -> dict[int, int]:
    """The entity of the first token of each mention; of several mentions at one token, that of the longest.

    Args:
        ends: the end of each token in the text, in characters from 0.
        mentions: the mentions of the text.
    """
    running_ends = list(accumulate(ends, max))
    shortest_first = sorted(mentions, key=lambda mention: (mention[1] - mention[0], mention))
    tokens = {bisect_right(running_ends, start): entity for start, _, entity in shortest_first}
    return {place: tokens[place] for place in sorted(tokens) if place < len(running_ends)}
