"""Metrics of labels on a whole test set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from subgraft.evaluation.metrics.labelled import LabelMetric, label_score
from subgraft.evaluation.metrics.scores import Score


def label_scores(
    metrics: Sequence[LabelMetric],
    predictions: Any,
    references: Any,
    labels: Sequence[str] = (),
    negative: str | None = None,
) -> dict[str, Score]:
    """Each metric's score, by its name."""
    return {
        metric.name: label_score(metric, metric.statistics(predictions, references, labels, negative), negative)
        for metric in metrics
    }
