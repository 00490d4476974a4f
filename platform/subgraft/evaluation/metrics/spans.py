"""Answers in words: exact match and F1 of tokens, as SQuAD's official script scores them.

The rules are those of the script of SQuAD 2.0 (Rajpurkar et al. 2018), which has questions without an answer. That of
SQuAD 1.1 normalises alike, and differs only where an answer has nothing but articles and punctuation. Words are
separated by spaces and only English articles are removed, in every language, as in the script.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from subgraft.evaluation.metrics.sentence_statistics import FloatArray

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """The answer in lower case, without ASCII punctuation, English articles, and spaces in excess."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_matches(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """Whether each prediction equals one of its references, [n] of 0 or 1.

    Args:
        predictions: n answers; the empty text says that there is no answer.
        references: for each, all correct answers; none if the question has no answer.
    """
    pairs = zip(predictions, references, strict=True)
    return np.array(
        [normalise(prediction) in _correct_answers(answers) for prediction, answers in pairs], dtype=np.float64
    )


def token_f1s(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """F1 of the tokens of each prediction and its nearest reference, [n] in 0 to 1; as `exact_matches`."""
    pairs = zip(predictions, references, strict=True)
    return np.array(
        [
            max(_f1(normalise(prediction).split(), reference.split()) for reference in _correct_answers(answers))
            for prediction, answers in pairs
        ],
        dtype=np.float64,
    )


def answerable(references: Sequence[Sequence[str]]) -> FloatArray:
    """Whether each question has an answer, [n] of 0 or 1."""
    return np.array([len(answers) > 0 for answers in references], dtype=np.float64)


def _correct_answers(references: Sequence[str]) -> list[str]:
    """The normalised references that are not empty; the empty text alone if all are empty."""
    return [answer for answer in map(normalise, references) if answer] or [""]


def _f1(prediction: list[str], reference: list[str]) -> float:
    if not prediction or not reference:
        return float(prediction == reference)
    return 2 * (Counter(prediction) & Counter(reference)).total() / (len(prediction) + len(reference))
