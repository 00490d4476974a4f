"""Answer-aware question generation: from a passage with its answer marked to a question that has this answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.config.corpora import QuestionGenerationSettings
from subgraft.base.errors import UserError
from subgraft.data.sources.squad import Question
from subgraft.data.tasks.window import window
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
