"""Metrics of classes, labels and values against scikit-learn and SciPy, and all metrics of labels under resampling."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn import metrics as reference

from label_metric_scores import label_scores
from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.classes import class_calibration, confusion, f1_by_class
from subgraft.evaluation.metrics.labelled import (
    LABEL_METRICS,
    LabelMetric,
    label_metric,
    label_score,
    metrics_for,
)
from subgraft.evaluation.metrics.significance import bootstrap_scores, compare, estimate

LABELS = ("a", "b", "c", "d")


def scores(names: Sequence[str], predictions: Any, references: Any, **options: Any) -> dict[str, float]:
    chosen = [label_metric(name) for name in names]
    return {name: score.value for name, score in label_scores(chosen, predictions, references, **options).items()}


def micro(predicted: Any, wanted: Any, labels: Sequence[int] | None = None) -> dict[str, float]:
    values = reference.precision_recall_fscore_support(wanted, predicted, labels=labels, average="micro")
    return dict(zip(("precision micro", "recall micro", "F1 micro"), values[:3], strict=True))


@pytest.fixture(autouse=True)
def reference_is_silent_and_quick() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that do not occur
        with config_context(skip_parameter_validation=True, assume_finite=True):  # for speed
            yield


def test_scores_of_classes_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    for _ in range(100):
        size, used = generator.integers(1, 20), generator.integers(1, 5)
        predicted, wanted = generator.integers(used, size=(2, size))
        by_class = reference.f1_score(wanted, predicted, labels=range(4), average=None)
        expected = {
            "accuracy": reference.accuracy_score(wanted, predicted),
            "F1 macro": reference.f1_score(wanted, predicted, average="macro"),
            **micro(predicted, wanted),
            "MCC": reference.matthews_corrcoef(wanted, predicted),
            "F1 of b": by_class[1],
        }
        assert {*metrics_for("class", ["b"])} == set(expected)
        expected = {name: 100 * value for name, value in expected.items()}
        assert scores([*expected], predicted, wanted, labels=LABELS) == pytest.approx(expected, abs=1e-9)
        counts = LABEL_METRICS["F1 macro"].statistics(predicted, wanted, LABELS).sum(axis=0)
        assert f1_by_class(counts) == pytest.approx(100 * by_class, abs=1e-9)
        matrix = reference.confusion_matrix(wanted, predicted, labels=range(4))
        np.testing.assert_array_equal(confusion(predicted, wanted, 4), matrix)


def test_the_negative_class_counts_only_as_errors_of_the_others() -> None:
    """As TACRED is scored: precision, recall and F1 of relations, without "no relation"."""
    generator = np.random.default_rng(2)
    for _ in range(100):
        predicted, wanted = generator.integers(4, size=(2, 15))
        occur = sorted({*predicted, *wanted} - {2})
        macro = reference.f1_score(wanted, predicted, labels=occur, average="macro")
        expected = {"F1 macro": macro, **micro(predicted, wanted, [0, 1, 3])}
        expected = {name: 100 * value for name, value in expected.items()}
        ours = scores([*expected], predicted, wanted, labels=LABELS, negative="c")
        assert ours == pytest.approx(expected, abs=1e-9)
        for name in ("accuracy", "MCC", "F1 of c"):
            both = [scores([name], predicted, wanted, labels=LABELS, negative=one) for one in ("c", None)]
            assert both[0] == both[1]


def test_scores_of_label_sets_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(3)
    for _ in range(100):
        predicted, wanted = generator.random((2, generator.integers(1, 12), 4)) < generator.random()
        occurs = (predicted | wanted).any(axis=0)
        expected = {
            "accuracy": reference.accuracy_score(wanted, predicted),
            **micro(predicted, wanted),
            # scikit-learn's mean is over all labels of the table.
            "F1 macro": reference.f1_score(wanted, predicted, average="macro") * 4 / max(1, occurs.sum()),
        }
        assert {*expected, "F1 loose"} == {*metrics_for("labels")}
        expected = {name: 100 * value for name, value in expected.items()}
        assert scores([*expected], predicted, wanted, labels=LABELS) == pytest.approx(expected, abs=1e-9)


def test_loose_f1_by_hand() -> None:
    predicted = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]], dtype=bool)
    wanted = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
    precision, recall = (1 / 2 + 1) / 2, (1 + 0 + 1 / 2) / 3
    expected = 200 * precision * recall / (precision + recall)
    assert scores(["F1 loose"], predicted, wanted, labels=LABELS)["F1 loose"] == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 1e6], ids=["around zero", "far from it"])
def test_scores_of_values_are_those_of_scipy_and_scikit_learn(shift: float) -> None:
    generator = np.random.default_rng(4)
    for _ in range(100):
        size = generator.integers(3, 40)
        wanted = generator.integers(6, size=size) / 5 + shift  # with ties
        predicted = wanted * generator.normal() + generator.normal(size=size)
        if np.ptp(wanted) == 0:
            continue
        expected = {
            "Pearson": 100 * stats.pearsonr(predicted, wanted).statistic,
            "Spearman": 100 * stats.spearmanr(predicted, wanted).statistic,
            "MSE": reference.mean_squared_error(wanted, predicted),
            "RMSE": reference.root_mean_squared_error(wanted, predicted),
        }
        assert set(expected) == set(metrics_for("value"))
        assert scores([*expected], predicted, wanted) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e6 + 0.1, -7.7e-9])
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_a_constant_has_no_correlation(constant: float, size: int) -> None:
    wanted = np.random.default_rng(5).normal(size=size)
    ours = scores(["Pearson", "Spearman"], np.full(size, constant), wanted)
    assert ours == {"Pearson": 0.0, "Spearman": 0.0}
    # Nor has a resample that draws one value alone, other than the value in the middle.
    sums = 13 * LABEL_METRICS["Pearson"].statistics(wanted * constant, wanted)[0]
    assert LABEL_METRICS["Pearson"].score(sums) == 0


def test_one_class_alone() -> None:
    right = scores(metrics_for("class"), [1, 1], [1, 1], labels=LABELS)
    assert right == {**dict.fromkeys(metrics_for("class"), 100.0), "MCC": 0.0}
    wrong = scores(metrics_for("class"), [0, 0], [1, 1], labels=LABELS)
    assert set(wrong.values()) == {0.0}


def test_the_error_of_calibration_is_of_the_class_predicted() -> None:
    result = class_calibration([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.75, 0.25]], [0, 0, 1, 0], bins=2)
    assert result.tokens == 4
    assert (result.confidence, result.accuracy) == pytest.approx(((0.9 + 0.7 + 0.8 + 0.75) / 4, 3 / 4))
    assert result.error == pytest.approx(abs(3.15 - 3) / 4)
    assert [one.count for one in result.bins] == [0, 4]


# Predictions of one kind, better or worse, with their references.


def classes_or_labels(generator: np.random.Generator, kind: str, noise: float) -> tuple[Any, Any]:
    table = np.random.default_rng(0)
    if kind == "class":
        # The last class is rare: a third of all resamples miss it.
        wanted = np.where(np.arange(60) == 0, 3, table.integers(3, size=60))
        return np.where(generator.random(60) < noise, generator.integers(4, size=60), wanted), wanted
    labels = table.random((60, 4)) < 0.3
    return labels ^ (generator.random((60, 4)) < noise), labels


def system(kind: str, noise: float, seed: int) -> tuple[Any, Any]:
    generator, table = np.random.default_rng(seed), np.random.default_rng(0)
    if kind in ("class", "labels"):
        return classes_or_labels(generator, kind, noise)
    if kind == "value":
        wanted = table.normal(size=60)
        return wanted + 3 * noise * generator.normal(size=60), wanted
    if kind == "ranking":
        grades = table.integers(4, size=(60, 8))
        return (grades + 5 * noise * generator.normal(size=grades.shape)).tolist(), grades.tolist()
    if kind == "answer":
        golds = [["cat"] if number % 30 else [] for number in range(60)]
        return ["dog" if generator.random() < noise else "".join(gold) for gold in golds], golds
    tags = [["B-A", "I-A", "O"] if number % 30 else ["O", "O", "B-B"] for number in range(60)]
    return [["O" if generator.random() < noise else tag for tag in one] for one in tags], tags


LABELS_OF_KIND = {"tags": ("O", "B-A", "I-A", "B-B")}


def statistics(metric: LabelMetric, kind: str, noise: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    labels = LABELS_OF_KIND.get(kind, LABELS)
    return np.stack([metric.statistics(*system(kind, noise, seed), labels) for seed in (1, 2, 3)])


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, metric in LABEL_METRICS.items() for kind in metric.kinds]
)
def test_every_metric_is_resampled(name: str, kind: str) -> None:
    metric = LABEL_METRICS[name]
    good, bad = (statistics(metric, kind, noise) for noise in (0.1, 0.6))
    assert np.isfinite(bootstrap_scores(metric.score, bad, samples=500)).all()
    by_seed = [label_score(metric, one) for one in good]
    assert {(score.name, score.signature) for score in by_seed} == {(name, metric.signature())}
    result = estimate(metric.score, good, samples=500, bounds=metric.bounds)
    assert result.score == pytest.approx(np.mean([score.value for score in by_seed]))
    assert metric.bounds[0] <= result.interval.low <= result.score <= result.interval.high <= metric.bounds[1]
    comparison = compare(metric.score, good, bad, samples=500)
    assert (comparison.difference < 0) == metric.lower_is_better
    assert comparison.difference == pytest.approx(
        result.score - np.mean([label_score(metric, one).value for one in bad])
    )
    assert compare(metric.score, good, good, samples=500).p_value == 1


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, metric in LABEL_METRICS.items() for kind in metric.kinds]
)
def test_a_resample_scores_as_the_examples_that_it_draws(name: str, kind: str) -> None:
    """Ranks aside, which stay those of the whole set; and the highest relevance is that of the whole set."""
    metric, labels = LABEL_METRICS[name], LABELS_OF_KIND.get(kind, LABELS)
    predictions, references = system(kind, 0.4, 1)
    whole = metric.statistics(predictions, references, labels)
    generator = np.random.default_rng(6)
    for _ in range(20):
        drawn = generator.integers(60, size=60)
        again = metric.statistics([predictions[i] for i in drawn], [references[i] for i in drawn], labels)
        tolerance = 5 if name == "Spearman" else 1e-9
        assert metric.score(whole[drawn].sum(axis=0)) == pytest.approx(metric.score(again.sum(axis=0)), abs=tolerance)


def test_a_negative_correlation_has_an_interval_below_zero() -> None:
    wanted = np.random.default_rng(7).normal(size=(1, 80))
    metric = LABEL_METRICS["Pearson"]
    counts = np.stack([metric.statistics(-one + 0.1 * wanted[0] ** 2, one) for one in wanted])
    interval = estimate(metric.score, counts, samples=200, bounds=metric.bounds).interval
    assert -100 <= interval.low < interval.high < -80


def test_an_interval_ends_where_the_metric_does() -> None:
    """Three seeds of 100, 100 and 95 %: the error of their mean is drawn beyond a hundred."""
    metric, wanted = LABEL_METRICS["accuracy"], np.zeros(60, dtype=int)
    counts = np.stack([metric.statistics(wanted + (np.arange(60) < wrong), wanted) for wrong in (0, 0, 3)])
    assert estimate(metric.score, counts, samples=200).interval.high > 100
    assert estimate(metric.score, counts, samples=200, bounds=metric.bounds).interval.high == 100


def test_signatures_have_the_settings() -> None:
    assert LABEL_METRICS["F1 macro"].signature() == "F1|average:macro|classes:occurring|zero-division:0"
    assert LABEL_METRICS["F1 micro"].signature("none") == "F1|average:micro|zero-division:0|without:none"
    assert LABEL_METRICS["accuracy"].signature("none") == "accuracy|labels:all"
    assert label_metric("F1 of b").signature("none") == "F1|class:b|zero-division:0"


def test_what_does_not_go_together_is_refused() -> None:
    metric = LABEL_METRICS["F1 macro"]
    with pytest.raises(UserError, match="2 predictions but 1 references"):
        metric.statistics([0, 1], [0], LABELS)
    with pytest.raises(UserError, match="there is nothing to score"):
        metric.statistics(np.zeros(0, dtype=int), np.zeros(0, dtype=int), LABELS)
    with pytest.raises(ValueError, match="'x' is not in list"):
        metric.statistics([0], [0], LABELS, negative="x")
    with pytest.raises(ValueError, match="integers in 0 to 3"):
        metric.statistics([4], [0], LABELS)
    with pytest.raises(UserError, match="NaN or infinity among the predictions"):
        LABEL_METRICS["Pearson"].statistics([float("nan"), 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="'x' is not in list"):
        label_metric("F1 of x").statistics([0], [0], LABELS)
