"""Sentence-level counts, whose sums determine the corpus scores.

A corpus score depends on its sentences only through the sums of a few counts each. Resampling sentences then means
re-weighting one matrix, and thousands of resampled corpora are scored at once. ROUGE, METEOR and CIDEr are means of
sentence scores: their counts are the score and the number of sentences. So are plugins' metrics.

Those are functions of installed packages (entry points `subgraft.metrics`), called as `function(sources, hypotheses,
references, language)` with sequences of n texts (sources is None if unknown) and the target language. They return n
finite numbers; higher is better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.config.plugins import METRICS, Plugin, offered
from subgraft.evaluation.metrics.scores import (
    SENTENCE_METRICS,
    AnyMetricName,
    Score,
    check_parallel,
    sacrebleu_metric,
    signature,
)

FloatArray = NDArray[np.float64]

BLEU_ORDER = 4
CHRF_BETA = 2


def sentence_statistics(
    metric: AnyMetricName, hypotheses: Sequence[str], references: Sequence[str], language: str
) -> FloatArray:
    """Counts per sentence: [n, 10] for BLEU, [n, 18] for chrF, as sacrebleu extracts them; [n, 2] for the others.

    BLEU: length, reference length, matching 1- to 4-grams, all 1- to 4-grams.
    chrF: per character order 1 to 6 the n-grams of the hypothesis, of the reference, and of both.
    TER: edits, reference length.
    ROUGE, METEOR, CIDEr: the sentence's score in 0 to 1 (CIDEr: to 10), and one.

    Raises:
        UserError: there is nothing to score, or the counts of lines differ.
    """
    check_parallel(hypotheses, references)
    if metric in SENTENCE_METRICS:
        scores = np.asarray(SENTENCE_METRICS[metric].scores(hypotheses, references, language))
        return np.stack([scores, np.ones_like(scores)], axis=1)
    scorer = sacrebleu_metric(metric, language)
    # sacrebleu has no public name for this; its own significance tests use it.
    counts = scorer._extract_corpus_statistics(list(hypotheses), [list(references)])
    return np.asarray(counts, dtype=np.float64)


def score_sums(metric: str, sums: FloatArray) -> FloatArray:
    """The corpus scores of summed statistics, [..., k] to [...], in points; of a user's own metric in its own unit."""
    if metric == "BLEU":
        return _bleu(sums)
    if metric == "chrF":
        return _chrf(sums)
    if metric == "TER":
        return _ter(sums)
    return (100 if metric in SENTENCE_METRICS else 1) * sums[..., 0] / sums[..., 1]


def ratio(sums: FloatArray) -> FloatArray:
    """The first sum divided by the second, [..., 2] to [...]: a mean, or bits per character."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def corpus_score(metric: AnyMetricName, statistics: FloatArray, language: str) -> Score:
    """The score of a whole test set from its statistics [n, k]."""
    return Score(metric, float(score_sums(metric, statistics.sum(axis=0))), signature(metric, language))


def _ter(sums: FloatArray) -> FloatArray:
    """Edits over reference words (Snover et al. 2006, equation 1); anything at all for an empty reference is 100."""
    edits, length = sums[..., 0], sums[..., 1]
    return np.where(length > 0, 100 * edits / np.maximum(length, 1), np.where(edits > 0, 100.0, 0.0))


def _bleu(sums: FloatArray) -> FloatArray:
    """BLEU with exponential smoothing of empty orders (Chen and Cherry 2014, method 3; sacrebleu's default)."""
    length, reference_length = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2 : 2 + BLEU_ORDER], sums[..., 2 + BLEU_ORDER :]
    empty = (correct == 0) & (total > 0)
    smoothed = 0.5 ** np.cumsum(empty, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(empty, smoothed, correct) / total
        brevity = np.where(length < reference_length, np.exp(1 - reference_length / length), 1.0)
        score = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    defined = correct.any(axis=-1) & (total > 0).all(axis=-1)
    return np.where(defined, score, 0.0)


def _chrf(sums: FloatArray) -> FloatArray:
    """chrF2 (Popović 2015): precision and recall averaged over the orders that occur, then their F-score."""
    counts = sums.reshape(*sums.shape[:-1], -1, 3)
    hypothesis, reference, match = counts[..., 0], counts[..., 1], counts[..., 2]
    occurs = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(occurs.sum(axis=-1), 1)
    precision = (np.where(occurs, match, 0) / np.maximum(hypothesis, 1)).sum(axis=-1) / orders
    recall = (np.where(occurs, match, 0) / np.maximum(reference, 1)).sum(axis=-1) / orders
    weight = CHRF_BETA**2
    denominator = weight * precision + recall
    score = 100 * (1 + weight) * precision * recall / np.where(denominator > 0, denominator, 1.0)
    return np.asarray(score, dtype=np.float64)


def plugin_metric(name: str) -> Plugin:
    """The metric that a package offers under this name. Raises UserError where none does, as on another machine."""
    if name not in offered(METRICS):
        available = ", ".join(offered(METRICS)) or "none"
        hint = f"There is: {available}. Its package must be installed wherever steps run."
        raise UserError(f"no installed package offers the metric '{name}'", where="subgraft.metrics", hint=hint)
    return offered(METRICS)[name]


def plugin_statistics(
    metric: Plugin, sources: Sequence[str] | None, hypotheses: Sequence[str], references: Sequence[str], language: str
) -> FloatArray:
    """Statistics [n, 2] of each sentence: its score, and one. Raises UserError if the function fails."""
    check_parallel(hypotheses, references)
    where = f"{metric.name} of {metric.package}"
    try:
        scores = np.asarray(list(metric.load()(sources, hypotheses, references, language)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"the metric failed: {type(error).__name__}: {error}", where=where) from error
    if scores.shape != (len(references),) or not np.isfinite(scores).all():
        problem = f"{scores.size} scores" if scores.shape != (len(references),) else "NaN or infinity among its scores"
        raise UserError(f"the metric returned {problem} for {len(references)} sentences", where=where)
    return np.stack([scores, np.ones_like(scores)], axis=1)


def plugin_score(metric: Plugin, statistics: FloatArray) -> Score:
    """The mean over sentences, signed with the package that computed it."""
    sums = statistics.sum(axis=0)
    return Score(metric.name, float(sums[0] / sums[1]), f"{metric.name}|mean|{metric.package.replace(' ', ':')}")
