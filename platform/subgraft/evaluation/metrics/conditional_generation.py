"""Metrics of text written for a source: label accuracy, prompt ranking and distinct n-grams."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.metric_words import tokens


class TextClassifier:
    """A classifier of texts by label; the same texts make the same classifier.

    Raises UserError for fewer than two classes, or for texts without words.
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
        """The share of texts that the classifier assigns to the class of their label."""
        return float(self.agrees(texts, labels).mean())

    def agrees(self, texts: Sequence[str], labels: Sequence[str]) -> NDArray[np.float64]:
        """For each text [n], 1 if the classifier assigns it to the class of its label, else 0."""
        return np.asarray(self._pipeline.predict(list(texts)) == np.array(labels), dtype=np.float64)


# Prompt ranking: whether a model finds the source that a text was written for among others (Fan et al., ACL 2018).
#
# The text's probability is computed for its own source and for nine others; the model is right if its own source gives
# the highest (Ziegler et al. 2019, section 4.3). A model that ignores sources is right in a tenth.
#
# Equal likelihoods, summed in single precision, may differ by up to this many nats.
_TOLERANCE = 1e-3


def candidates(sources: Sequence[Hashable], count: int, seed: int, texts: int | None = None) -> NDArray[np.int64]:
    """Indices [texts, count] into `sources`: for each text its own source first, then other sources.

    The other sources are sampled without replacement; if fewer than `count` sources differ, a text gets all of them.

    Args:
        sources: Of all texts.
        count: Candidates per text, its own source included.
        seed: Of the sampling.
        texts: How many texts, from the first one on, get candidates; all if None.

    Raises:
        UserError: all sources are equal.
    """
    first: dict[Hashable, int] = {}
    for index, source in enumerate(sources):
        first.setdefault(source, index)
    if len(first) < 2:
        raise UserError("a source cannot be ranked: the test set has but one", hint="Ranking needs two that differ.")
    distinct_sources, generator = np.array(list(first.values())), np.random.default_rng(seed)
    rows = []
    for index, source in enumerate(sources[:texts]):
        others = distinct_sources[distinct_sources != first[source]]
        rows.append([index, *generator.choice(others, size=min(count, len(first)) - 1, replace=False)])
    return np.array(rows, dtype=np.int64)


def ranked_first(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each text [n], 1 if it is likeliest given its own source, 1 / k if k sources share the highest, else 0.

    nats: negative log-likelihoods [n, candidates], the own source first.
    """
    best = nats <= nats.min(axis=1, keepdims=True) + _TOLERANCE
    return np.asarray(best[:, 0] / best.sum(axis=1), dtype=np.float64)


# Distinct-n: the diversity of texts, as the share of n-grams that are different (Li et al., NAACL 2016, section 5).


def distinct(texts: Sequence[str], language: str, n: int) -> float:
    """The share of different n-grams among all n-grams of words; 0 without any.

    It falls with the number of texts, so compare equal numbers of texts only.
    """
    words = (tokens(text, language) for text in texts)
    grams = [tuple(each[start : start + n]) for each in words for start in range(len(each) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0
