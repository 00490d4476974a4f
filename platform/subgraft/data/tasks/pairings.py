"""What each kind of corpus that holds more than two texts side by side is made pairs by."""

from __future__ import annotations

from subgraft.config.corpora import QuestionGenerationSettings
from subgraft.data.sources.squad import Pairing
from subgraft.data.tasks.question_generation import MarkedAnswer


def pairing(questions: QuestionGenerationSettings | None) -> Pairing | None:
    """How a task turns questions on passages into pairs; None for text that is already in pairs."""
    return None if questions is None else MarkedAnswer(questions)
