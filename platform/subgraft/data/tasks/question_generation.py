"""Answer-aware question generation: from a passage with its answer marked to a question that has this answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Count, Settings
from subgraft.data.sources.kind import Pairing, Question
from subgraft.data.tasks.task import ANY_LENGTH, TEXT_METRICS, TaskSpec
from subgraft.data.text.sentences import sentence_limits, word_limits

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


QUESTION_GENERATION = TaskSpec(
    name="question-generation",
    called="Question-generation",
    hub_tag="text2text-generation",
    metrics=TEXT_METRICS,
    of_questions=True,
    # A question is shorter than its passage; longer outputs only repeat themselves.
    defaults={"cleaning": ANY_LENGTH, "evaluation": {"max_length_ratio": 1.0}},
)


class QuestionGenerationSettings(Settings):
    """The model's input to generate a question: a passage with the answer marked.

    window: characters of the passage around the answer, without marks.
    marks: the text before and after the answer; the encoder's vocabulary must spell it.
    """

    window: Count = 600
    marks: tuple[Annotated[str, Field(pattern=r"^\S+$")], Annotated[str, Field(pattern=r"^\S+$")]] = ('"-', '-"')


@dataclass(frozen=True)
class MarkedAnswer:
    """Turns a question into the pair (window of the passage with the answer between marks, question).

    Marking the answer in place identifies which of its occurrences is meant (Chan and Fan 2019, BERT-HLSQG, who use
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
        # Spaces around a mark ensure that it is always segmented into the same pieces.
        return " ".join(part for part in (before, opening, answer, closing, after) if part), question.text

    def _unmarked(self, text: str) -> str:
        """The text with spaces inserted into anything that equals a mark; a mark of one character is removed."""
        for mark in self.settings.marks:
            text = text.replace(mark, " ".join(mark) if len(mark) > 1 else "")
        return text.strip()


def require_marks(marks: Sequence[str], tokenizer: Tokenizer, where: str) -> None:
    """Raises UserError for a mark that the vocabulary cannot spell, which would leave answers unmarked."""
    unspellable = [mark for mark in marks if tokenizer.special.get("unk", -1) in tokenizer.encode(mark)]
    if unspellable:
        hint = "Set question_generation.marks to text that it can spell."
        raise UserError(
            f"the vocabulary that reads passages cannot spell the mark {unspellable[0]}", where=where, hint=hint
        )


# The window around a span ends at sentence boundaries, or at least at word boundaries.


def window(text: str, start: int, end: int, limit: int) -> tuple[int, int]:
    """Bounds of a window of at most `limit` characters that contains text[start:end].

    Sentences are added around those of the span, on the shorter side while there is room. If they do not fit, or fill
    less than half of the limit, words are added instead, and otherwise characters. The span is never truncated: if it
    is longer than the limit, it is the window.
    """
    if len(text) <= limit:
        return 0, len(text)
    if end - start >= limit:
        return start, end
    for limits in (sentence_limits(text), word_limits(text), range(len(text) + 1)):
        span = _grow_window(limits, start, end, limit)
        if span is not None and 2 * (span[1] - span[0]) >= limit:
            return span
    raise AssertionError("characters always fit")


def _grow_window(limits: Sequence[int], start: int, end: int, limit: int) -> tuple[int, int] | None:
    """The widest balanced window between two of the limits; None if the units of the span do not fit."""
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


def pairing(questions: QuestionGenerationSettings | None) -> Pairing | None:
    """How a task turns questions on passages into pairs; None for text that is already in pairs."""
    return None if questions is None else MarkedAnswer(questions)
