"""Systems summarised over their seeds: means, bootstrap intervals, differences from the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import fmean
from typing import TypeAlias

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.settings_base import MetricName
from subgraft.evaluation.metrics.scores import check_parallel
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, corpus_score
from subgraft.evaluation.metrics.significance import Comparison, Interval, Scored, compare, estimate, holm
from subgraft.evaluation.reporting.records import Cost, CurvePoint, ReportData, SystemResult

# Statistics [sentences, counts] by system and seed.
RunStatistics: TypeAlias = Mapping[tuple[str, int], FloatArray]


@dataclass(frozen=True)
class MetricSummary:
    """One metric of one system. `comparison` is None for the baseline, or where no seed is shared with it.

    The comparison's p-value is Holm's, over all systems compared by this metric.
    """

    by_seed: Mapping[int, float]
    mean: float
    interval: Interval
    comparison: Comparison | None

    @property
    def compared_seeds(self) -> int:
        """How many seeds its comparison is over; of the baseline, all it has."""
        return self.comparison.seeds if self.comparison else len(self.by_seed)


@dataclass(frozen=True)
class BitsSummary:
    """Bits per character on dev, averaged over seeds: at step 0, after the first epoch, of the selected weights."""

    start: float | None
    first_epoch: float | None
    selected: float | None


@dataclass(frozen=True)
class SystemSummary:
    """A system over all of its seeds; figures without seeds are means over them."""

    name: str
    seeds: tuple[int, ...]
    metrics: Mapping[str, MetricSummary]
    bits: BitsSummary
    tokens_per_sentence: float
    characters_per_token: float
    inference_ece: float | None
    sentences_per_second: float
    parameters: int
    cost: Cost
    family: str
    variant: str
    vocabulary_size: int | None
    generator_steps: int | None
    pretraining_step: int | None


def baseline_of(systems: Sequence[SystemSummary], data: ReportData) -> SystemSummary | None:
    return next((system for system in systems if system.name == data.baseline), None)


def mean_on_dev(data: ReportData, name: str) -> float:
    """The mean dev score of a system's selected weights; a higher one is better."""
    return fmean(result.dev.signed for result in data.results(name))


@lru_cache(maxsize=4)
def summarise(data: ReportData) -> tuple[SystemSummary, ...]:
    """One summary per system, in order; computed once per `ReportData` object.

    Raises:
        UserError: there are no systems, or a system has not one output per reference.
    """
    if not data.systems:
        raise UserError("there are no results to report")
    for system in data.systems:
        check_parallel(system.hypotheses, data.references, f"{system.name}, seed {system.seed}")
    by_metric = {metric: _summarise_metric(data, metric) for metric in (*data.metrics, *data.plugin_metrics)}
    summaries = list[SystemSummary]()
    for name in data.system_names:
        results = data.results(name)
        bits = BitsSummary(
            start=_mean_bits(results, lambda point, result: point.step == 0),
            first_epoch=_mean_bits(results, lambda point, result: point.epoch >= 1),
            selected=_mean_bits(results, lambda point, result: point.step == result.selected_step),
        )
        summary = SystemSummary(
            name=name,
            seeds=tuple(result.seed for result in results),
            metrics={metric: by_metric[metric][name] for metric in by_metric},
            bits=bits,
            tokens_per_sentence=fmean(result.tokens_per_sentence for result in results),
            characters_per_token=fmean(result.characters_per_token for result in results),
            inference_ece=_mean_of_all([result.inference_ece for result in results]),
            sentences_per_second=fmean(result.sentences_per_second for result in results),
            parameters=results[0].parameters,
            cost=mean_cost(results),
            family=results[0].family,
            variant=results[0].variant,
            vocabulary_size=results[0].vocabulary_size,
            generator_steps=results[0].generator_steps,
            pretraining_step=results[0].pretraining_step,
        )
        summaries.append(summary)
    return tuple(summaries)


@lru_cache(maxsize=4)
def summarise_spelled(data: ReportData, metrics: tuple[MetricName, ...]) -> tuple[SystemSummary, ...]:
    """The systems with these metrics over the test sentences that all can spell; empty where that is all or none."""
    mask = data.spelled_by_all
    if mask is None or mask.all() or not mask.any():
        return ()
    restricted = list[SystemResult]()
    for system in data.systems:
        statistics = {str(metric): system.statistics[metric][mask] for metric in metrics}
        scores = {str(metric): corpus_score(metric, statistics[metric], data.languages[1]) for metric in metrics}
        restricted.append(replace(system, statistics=statistics, scores=scores))
    restricted_data = replace(data, systems=tuple(restricted))
    by_metric = {metric: _summarise_metric(restricted_data, metric) for metric in metrics}
    return tuple(
        replace(summary, metrics={metric: by_metric[metric][summary.name] for metric in metrics})
        for summary in summarise(data)
    )


def _summarise_metric(data: ReportData, metric: str) -> dict[str, MetricSummary]:
    statistics = {(system.name, system.seed): system.statistics[metric] for system in data.systems}
    scores = {(system.name, system.seed): system.scores[metric].value for system in data.systems}
    return summarise_scores(data, metric, statistics, scores)


def summarise_scores(
    data: ReportData,
    metric: Scored,
    statistics: RunStatistics,
    scores: Mapping[tuple[str, int], float],
    bounds: tuple[float, float] | None = None,
) -> dict[str, MetricSummary]:
    """Summarise a metric of every system; statistics and scores are by system and seed.

    bounds: the metric's lowest and highest value (see `significance.estimate`).
    """
    comparisons = compare_all(data, metric, statistics)
    summaries = {}
    for name in data.system_names:
        by_seed = {result.seed: scores[name, result.seed] for result in data.results(name)}
        stacked = np.stack([statistics[name, seed] for seed in by_seed])
        overall = estimate(metric, stacked, samples=data.bootstrap_samples, seed=data.bootstrap_seed, bounds=bounds)
        summaries[name] = MetricSummary(by_seed, fmean(by_seed.values()), overall.interval, comparisons.get(name))
    return summaries


def compare_all(data: ReportData, metric: Scored, statistics: RunStatistics) -> dict[str, Comparison]:
    """Every other system against the baseline, on the seeds that both have, with Holm's p-values if there are several.

    A system whose statistics cover a different number of sentences is not compared.
    """
    if data.baseline is None:
        return {}
    compared: dict[str, Comparison] = {}
    for name in data.system_names:
        seeds = [seed for seed in data.seeds if (name, seed) in statistics and (data.baseline, seed) in statistics]
        sizes = {len(statistics[side, seed]) for side in (name, data.baseline) for seed in seeds}
        if name == data.baseline or len(sizes) != 1:
            continue
        system, baseline = (np.stack([statistics[side, seed] for seed in seeds]) for side in (name, data.baseline))
        compared[name] = compare(metric, system, baseline, samples=data.bootstrap_samples, seed=data.bootstrap_seed)
    if len(compared) < 2:
        return compared
    adjusted = holm([comparison.p_value for comparison in compared.values()])
    return {
        name: replace(comparison, p_value=p_value, p_alone=comparison.p_value)
        for (name, comparison), p_value in zip(compared.items(), adjusted, strict=True)
    }


def mean_cost(results: Sequence[SystemResult]) -> Cost:
    return Cost(*(fmean(getattr(result.cost, field.name) for result in results) for field in fields(Cost)))


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean; None unless every seed has the figure."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if len(defined) == len(values) else None


def _mean_bits(
    results: tuple[SystemResult, ...], condition: Callable[[CurvePoint, SystemResult], bool]
) -> float | None:
    """The mean over seeds of the first point that meets the condition; None unless every seed has one."""
    bits = (
        next((point.dev_bits_per_character for point in result.curve if condition(point, result)), None)
        for result in results
    )
    return _mean_of_all(list(bits))
