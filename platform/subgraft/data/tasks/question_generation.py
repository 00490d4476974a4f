"""Answer-aware question generation: from a passage with its answer marked to a question that has this answer."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from subgraft.base.errors import UserError
from subgraft.config.corpora import QuestionGenerationSettings
from subgraft.data.sources.squad import Question
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class MarkedAnswer:
    """Makes of a question the pair (window of the passage with the answer between marks, question).

    Marking the answer where it stands tells which of its occurrences is meant (Chan and Fan 2019, BERT-HLSQG, with
    special tokens as marks).
    """

    settings: QuestionGenerationSettings

    def __call__(self, question: Question) -> tuple[str, str]:
        passage, start, end = question.passage, question.start, question.end
        first, last = window(passage, start, end, self.settings.window)
        before, answer, after = (
            self._unmarked(part) for part in (passage[first:start], passage[start:end], passage[end:last])
        )
        opening, closing = self.settings.marks
        # Spaces around a mark, so that it is cut into the same pieces wherever it stands.
        return " ".join(part for part in (before, opening, answer, closing, after) if part), question.text

    def _unmarked(self, text: str) -> str:
        """The text without anything that could be taken for a mark: its characters are set apart, a single one goes."""
        for mark in self.settings.marks:
            text = text.replace(mark, " ".join(mark) if len(mark) > 1 else "")
        return text.strip()


def require_marks(marks: Sequence[str], tokenizer: Tokenizer, where: str) -> None:
    """Raises UserError for a mark that the vocabulary reads as unknown: then no answer would be marked."""
    lost = [mark for mark in marks if tokenizer.special.get("unk", -1) in tokenizer.encode(mark)]
    if lost:
        hint = "Set question_generation.marks to text that it can spell."
        raise UserError(f"the vocabulary that reads passages cannot spell the mark {lost[0]}", where=where, hint=hint)


# A window of a text around a span in it, that ends where sentences do, or at least words.
#
# The end of a sentence: its mark with quotes and brackets that close behind it, then white space, which languages
# without spaces do not have. An abbreviation before a capital passes for one: a window may begin there, no harm done.
_ENDS = re.compile(r"[.!?…]+[\"'”’)\]]*\s+(?=\S)|[。！？]+[」』”’）]*|\n+")
_SPACES = re.compile(r"\s+")


def window(text: str, start: int, end: int, limit: int) -> tuple[int, int]:
    """Bounds of a stretch of at most `limit` characters that holds text[start:end], which is never cut.

    Whole sentences are added around the span's own, on the side that has less so far while there is room. Where they
    have none, or fill less than half of it, words are added so instead, and for want of those characters. A span that
    is longer than the limit is all there is.
    """
    if len(text) <= limit:
        return 0, len(text)
    if end - start >= limit:
        return start, end
    for limits in (_sentence_limits(text), _word_limits(text), range(len(text) + 1)):
        found = _grown(limits, start, end, limit)
        if found is not None and 2 * (found[1] - found[0]) >= limit:
            return found
    raise AssertionError("characters always fit")


def _sentence_limits(text: str) -> list[int]:
    return _with_ends((found.end() for found in _ENDS.finditer(text) if not text[found.end() :][:1].islower()), text)


def _word_limits(text: str) -> list[int]:
    return _with_ends((found.end() for found in _SPACES.finditer(text)), text)


def _with_ends(places: Iterator[int], text: str) -> list[int]:
    return sorted({0, *places, len(text)})


def _grown(limits: Sequence[int], start: int, end: int, limit: int) -> tuple[int, int] | None:
    """The widest balanced stretch between two of the limits; None where the span's own units have no room."""
    first, last = bisect_right(limits, start) - 1, bisect_left(limits, end)
    if limits[last] - limits[first] > limit:
        return None
    while True:
        before = first > 0 and limits[last] - limits[first - 1] <= limit
        after = last + 1 < len(limits) and limits[last + 1] - limits[first] <= limit
        if not (before or after):
            return limits[first], limits[last]
        if before and (not after or start - limits[first] <= limits[last] - end):
            first -= 1
        else:
            last += 1
