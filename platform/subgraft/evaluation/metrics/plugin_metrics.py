"""Plugin metrics: a function of an installed package that scores sentences (entry points `subgraft.metrics`).

It is called as `function(sources, hypotheses, references, language)` with sequences of n texts (sources is None if
unknown) and the target language, and returns n finite numbers; higher is better. The corpus score is their mean, so a
test set can be resampled as for every other metric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.plugins import METRICS, Plugin, offered
from subgraft.evaluation.metrics.scores import Score, check_parallel
from subgraft.evaluation.metrics.sentence_statistics import FloatArray


def plugin_metric(name: str) -> Plugin:
    """The metric that a package offers under this name. Raises UserError where none does, as on another machine."""
    if name not in offered(METRICS):
        known = ", ".join(offered(METRICS)) or "none"
        hint = f"There is: {known}. Its package must be installed wherever steps run."
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
        what = f"{scores.size} scores" if scores.shape != (len(references),) else "NaN or infinity among its scores"
        raise UserError(f"the metric returned {what} for {len(references)} sentences", where=where)
    return np.stack([scores, np.ones_like(scores)], axis=1)


def plugin_score(metric: Plugin, statistics: FloatArray) -> Score:
    """The mean over sentences, signed with the package that computed it."""
    sums = statistics.sum(axis=0)
    return Score(metric.name, float(sums[0] / sums[1]), f"{metric.name}|mean|{metric.package.replace(' ', ':')}")
