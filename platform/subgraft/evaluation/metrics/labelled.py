"""The metrics of labelled tasks: each is a function of sums of statistics, so resampled test sets are scored at once.

`significance.estimate` and `compare` take the `score` of a metric here as they take the name of a metric of text.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from subgraft.evaluation.metrics import classes, correlations, ranking, tags
from subgraft.evaluation.metrics.scores import Score, check_parallel
from subgraft.evaluation.metrics.sentence_statistics import FloatArray

# The predictions of a model and their references, by kind:
# class: an index of a class, [n]; labels: booleans [n, classes]; value: a number, [n];
# answer: a text, and all its correct answers; tags: a list of tags, one per word; ranking: the scores of a query's
# candidates, and their relevances.
Kind: TypeAlias = Literal["class", "labels", "value", "answer", "tags", "ranking"]
_Statistics: TypeAlias = Callable[[Any, Any, Sequence[str], str | None], FloatArray]
_Score: TypeAlias = Callable[[FloatArray], FloatArray]


# Answers in words, by the rules of SQuAD 2.0's script (Rajpurkar et al. 2018), which has questions without an answer.
# That of SQuAD 1.1 normalises alike, and differs only where an answer has nothing but articles and punctuation. Words
# are separated by spaces and only English articles are removed, in every language, as in the script.

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


@dataclass(frozen=True)
class LabelMetric:
    """A metric of predictions and references, in points unless it is an error.

    kinds: the predictions that it scores.
    compute: its statistics; call `statistics`, which also checks.
    score: from sums of statistics [..., k] to scores [...]; defined for any sums of at least one example.
    settings: the settings that it scores under, for its signature.
    without_negative: whether it leaves out the negative class.
    bounds: the lowest and the highest value, for `significance.estimate`.
    """

    name: str
    kinds: tuple[Kind, ...]
    compute: _Statistics
    score: _Score
    settings: str
    without_negative: bool = False
    bounds: tuple[float, float] = (0.0, 100.0)
    lower_is_better: bool = False

    def statistics(
        self, predictions: Any, references: Any, labels: Sequence[str] = (), negative: str | None = None
    ) -> FloatArray:
        """Statistics [n, k] of n examples; k depends on the metric and the number of labels alone.

        Args:
            predictions: n predictions of the metric's kind.
            references: n references of the metric's kind.
            labels: the names of all classes, or all tags.
            negative: the class that means "none", such as "no_relation": precision, recall and F1 leave it out.

        Raises:
            UserError: there is nothing to score, or predictions and references do not match.
            ValueError: a class, or the negative one, is not one of `labels`.
        """
        check_parallel(predictions, references, kind="predictions")
        return self.compute(predictions, references, labels, negative)

    def signature(self, negative: str | None = None) -> str:
        """The settings that it scores under."""
        without = f"|without:{negative}" if negative is not None and self.without_negative else ""
        return f"{self.settings}{without}"


def label_score(metric: LabelMetric, statistics: FloatArray, negative: str | None = None) -> Score:
    """The score of a whole test set from its statistics [n, k]."""
    return Score(metric.name, float(metric.score(statistics.sum(axis=0))), metric.signature(negative))


def label_metric(name: str) -> LabelMetric:
    """The metric of this name: one of `metrics_for`."""
    return LABEL_METRICS[name] if name in LABEL_METRICS else _class_f1(name.removeprefix(_F1_PREFIX))


def _class_f1(label: str) -> LabelMetric:
    """F1 of one class, as GLUE scores paraphrases."""

    def compute(predictions: Any, references: Any, labels: Sequence[str], _: str | None) -> FloatArray:
        index = list(labels).index(label)
        predicted, actual = (classes.indicators(side, len(labels))[:, [index]] for side in (predictions, references))
        return classes.pooled_counts(predicted, actual)

    return LabelMetric(
        f"{_F1_PREFIX}{label}", ("class", "labels"), compute, classes.f1, f"F1|class:{label}|{_ZERO_SETTINGS}"
    )


def metrics_for(kind: Kind, labels: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of metrics of predictions of this kind, the usual one first; "F1 of LABEL" of each class comes last."""
    by_class = [f"{_F1_PREFIX}{label}" for label in labels] if kind in _CLASS_OR_LABELS else []
    return (*(name for name, metric in LABEL_METRICS.items() if kind in metric.kinds), *by_class)


_F1_PREFIX = "F1 of "
_ZERO_SETTINGS = "zero-division:0"
_TIES_SETTINGS = "ties:mean-of-orders|corpus:mean-of-queries"


def _label_statistics(
    count: Callable[[classes.BoolArray, classes.BoolArray], FloatArray], positives: bool
) -> _Statistics:
    """Statistics of classes or labels; with `positives`, without the negative class."""

    def compute(predictions: Any, references: Any, labels: Sequence[str], negative: str | None) -> FloatArray:
        without = list(labels).index(negative) if positives and negative is not None else None
        return count(*(classes.indicators(side, len(labels), without) for side in (predictions, references)))

    return compute


def _example_statistics(count: Callable[[Any, Any], FloatArray]) -> _Statistics:
    """Statistics that need no names of labels."""
    return lambda predictions, references, labels, negative: count(predictions, references)


def _mean_statistics(values: Callable[[Any, Any], FloatArray], has_answer: bool | None = None) -> _Statistics:
    """The value of each example, and one; with `has_answer`, both 0 for questions that do not have or do have one."""

    def compute(predictions: Any, references: Any, labels: Sequence[str], negative: str | None) -> FloatArray:
        per_example = values(predictions, references)
        weight = np.ones_like(per_example) if has_answer is None else answerable(references)
        weight = 1 - weight if has_answer is False else weight
        return np.stack([per_example * weight, weight], axis=1)

    return compute


def _entities_by_type(predictions: Any, references: Any, labels: Sequence[str], negative: str | None) -> FloatArray:
    return tags.entity_counts_by_type(predictions, references, labels)


_CLASS_OR_LABELS: tuple[Kind, ...] = ("class", "labels")
_POOLED, _BY_CLASS = _label_statistics(classes.pooled_counts, True), _label_statistics(classes.class_counts, True)
_MOMENTS, _ERRORS = _example_statistics(correlations.moments), _example_statistics(correlations.squared_errors)
_ENTITIES = _example_statistics(tags.entity_counts)
_SQUAD = "normalisation:squad|references:best"
_SEQEVAL = f"entities:seqeval-default|{_ZERO_SETTINGS}"
_OCCURRING = f"classes:occurring|{_ZERO_SETTINGS}"
_CONSTANT = "constant:0"
_SIGNED, _ERROR = (-100.0, 100.0), (0.0, float("inf"))

_CLASS_METRICS = (
    LabelMetric(
        "accuracy", _CLASS_OR_LABELS, _example_statistics(classes.accuracy_counts), classes.mean, "accuracy|labels:all"
    ),
    LabelMetric("F1 macro", _CLASS_OR_LABELS, _BY_CLASS, classes.f1_macro, f"F1|average:macro|{_OCCURRING}", True),
    LabelMetric("F1 micro", _CLASS_OR_LABELS, _POOLED, classes.f1, f"F1|average:micro|{_ZERO_SETTINGS}", True),
    LabelMetric(
        "precision micro",
        _CLASS_OR_LABELS,
        _POOLED,
        classes.precision,
        f"precision|average:micro|{_ZERO_SETTINGS}",
        True,
    ),
    LabelMetric(
        "recall micro", _CLASS_OR_LABELS, _POOLED, classes.recall, f"recall|average:micro|{_ZERO_SETTINGS}", True
    ),
    LabelMetric(
        "MCC",
        ("class",),
        _label_statistics(classes.class_counts, False),
        classes.matthews,
        f"MCC|{_CONSTANT}",
        bounds=_SIGNED,
    ),
    LabelMetric(
        "F1 loose",
        ("labels",),
        _label_statistics(classes.loose_counts, True),
        classes.loose_f1,
        f"F1|average:examples|{_ZERO_SETTINGS}",
        True,
    ),
)
_VALUE_METRICS = (
    LabelMetric("Pearson", ("value",), _MOMENTS, correlations.correlation, f"Pearson|{_CONSTANT}", bounds=_SIGNED),
    LabelMetric(
        "Spearman",
        ("value",),
        _example_statistics(correlations.rank_moments),
        correlations.correlation,
        f"Spearman|ties:mean|ranks:whole-set|{_CONSTANT}",
        bounds=_SIGNED,
    ),
    LabelMetric(
        "MSE", ("value",), _ERRORS, correlations.mean_squared_error, "MSE", bounds=_ERROR, lower_is_better=True
    ),
    LabelMetric(
        "RMSE", ("value",), _ERRORS, correlations.root_mean_squared_error, "RMSE", bounds=_ERROR, lower_is_better=True
    ),
)
_ANSWER_METRICS = tuple(
    LabelMetric(
        f"{name}{suffix}",
        ("answer",),
        _mean_statistics(values, has_answer),
        classes.mean,
        f"{name}|{_SQUAD}|{questions}",
    )
    for suffix, has_answer, questions in (
        ("", None, "questions:all"),
        (" answerable", True, "questions:answerable"),
        (" unanswerable", False, "questions:unanswerable"),
    )
    for name, values in (("token F1", token_f1s), ("exact match", exact_matches))
)
_TAG_METRICS = (
    LabelMetric("entity F1", ("tags",), _ENTITIES, classes.f1, f"F1|average:micro|{_SEQEVAL}"),
    LabelMetric("entity precision", ("tags",), _ENTITIES, classes.precision, f"precision|average:micro|{_SEQEVAL}"),
    LabelMetric("entity recall", ("tags",), _ENTITIES, classes.recall, f"recall|average:micro|{_SEQEVAL}"),
    LabelMetric("entity F1 macro", ("tags",), _entities_by_type, classes.f1_macro, f"F1|average:macro|{_SEQEVAL}"),
    LabelMetric("tag accuracy", ("tags",), _example_statistics(tags.tag_counts), classes.mean, "accuracy|of:tags"),
)
_RANKING_METRICS = tuple(
    LabelMetric(name, ("ranking",), _mean_statistics(values), classes.mean, f"{name}|{settings}|{_TIES_SETTINGS}")
    for name, values, settings in (
        ("NDCG@10", ranking.discounted_gains, "gain:2^relevance-1"),
        ("MRR", ranking.reciprocal_ranks, "relevant:above-0"),
        ("MRR@10", partial(ranking.reciprocal_ranks, depth=10), "relevant:above-0"),
        ("ERR@20", ranking.expected_reciprocal_ranks, "highest:of-the-set"),
    )
)
# To add a metric, define its statistics and its score in the module of its subject, and add an entry to a tuple above.
LABEL_METRICS: Mapping[str, LabelMetric] = {
    metric.name: metric
    for metric in (*_CLASS_METRICS, *_VALUE_METRICS, *_ANSWER_METRICS, *_TAG_METRICS, *_RANKING_METRICS)
}
