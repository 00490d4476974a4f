"""Adherence: how much of what was written for a class a classifier of its own takes for that class.

The classifier is TF-IDF of words and pairs of words, and logistic regression (Ziegler et al., 2019, have fastText). It
knows nothing of the models that it judges, and its own accuracy on text that it was not trained on says how far to
trust it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.metric_words import tokens


class TextClassifier:
    """Trained on texts and the labels of their classes; the same texts make the same classifier.

    Raises UserError where there are not two classes, or no text has a word.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[str], language: str) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        if len(set(labels)) < 2:
            raise UserError(f"a classifier needs two classes, and there is {', '.join(set(labels)) or 'none'}")
        split = partial(tokens, language=language)
        words = TfidfVectorizer(
            ngram_range=(1, 2), sublinear_tf=True, tokenizer=split, token_pattern=None, lowercase=False
        )
        self._pipeline: Any = make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000))
        try:
            self._pipeline.fit(list(texts), list(labels))
        except ValueError as error:  # an empty vocabulary
            raise UserError(f"no classifier can be trained on this text: {error}") from error

    def agreement(self, texts: Sequence[str], labels: Sequence[str]) -> float:
        """The share of texts that are taken for the class of their label: an accuracy, or adherence."""
        return float(self.right(texts, labels).mean())

    def right(self, texts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """Of each text [n], 1 where it is taken for the class of its label, else 0."""
        return np.asarray(self._pipeline.predict(list(texts)) == np.array(labels), dtype=np.float64)
