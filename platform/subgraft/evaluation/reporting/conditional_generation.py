"""What models write for a source: their scores with intervals, and how far their language models have moved."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.significance import Interval, compare, estimate, holm
from subgraft.evaluation.reporting.document import Block, Figure, Section
from subgraft.evaluation.reporting.numbers import MISSING, count, equals, fixed, interval
from subgraft.evaluation.reporting.plots import plot_drift
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.table import Column, Table, table

# Of scores that are not in points, how many digits count.
DIGITS = {"bits saved": 3}
EXPLAINED = {
    "bits saved": "Bits saved: how many bits per character fewer the test text takes given its own source than given "
    "another one; none where a model does not look at it.",
    "adherence": "Adherence: the share of written texts that a classifier of its own takes for the class they were "
    "written for; classifier accuracy is how often it is right about what people wrote.",
    "prompt ranking": "Prompt ranking: how often a text is likelier given its own source than given others; its "
    "signature says among how many, and what chance finds.",
    "distinct-1": "Distinct: the share of words, or of pairs of words, that are different; high where texts vary.",
}
# What a terminal has room for, at most two: whether it is right, and whether the source is read at all.
HEADLINES = ("exact match", "ROUGE-L", "adherence", "bits saved")


def headline_scores(data: ReportData) -> dict[str, dict[str, str]]:
    """Of each system its scores by heading, means over seeds; no headings where nothing is written for a source."""
    names = [name for name in HEADLINES if all(name in result.scores for result in data.systems)][:2]
    return {
        system: {
            name.replace(" ", "\n"): fixed(fmean(each.scores[name].value for each in results), DIGITS.get(name, 1))
            for name in names
        }
        for system in data.system_names
        for results in [data.results(system)]
    }


def written_scores(data: ReportData) -> tuple[Table, ...]:
    """Scores of what was written, a column each; nothing where models continue text without a source."""
    names = [name for name in data.systems[0].scores if all(name in system.scores for system in data.systems)]
    if not names:
        return ()
    p_values = {name: _p_values(data, name) for name in names}
    rows = []
    for system in data.system_names:
        results = data.results(system)
        drift = _mean_drift(results)
        cells = [_cell(data, results, name, p_values[name].get(system)) for name in names]
        rows.append([system, *cells, MISSING if drift is None else f"{drift:.1e}"])
    columns = [Column("system", "left"), *(Column(name.replace(" ", "\n")) for name in names), Column("drift")]
    return (table(columns, rows, "What is written, and what the source is worth", *_notes(data, names)),)


def drift_curves(data: ReportData) -> tuple[Figure, ...]:
    """How far feed-forward weights move during finetuning; nothing where no curve tells."""
    if not any(point.drift is not None for system in data.systems for point in system.curve):
        return ()
    caption = (
        "Root median squared distance of the feed-forward weights from those that finetuning began with (Ziegler et "
        "al. 2019, figure 2). Means over seeds, bands from the least seed to the greatest."
    )
    return (Figure("drift", plot_drift(data), caption),)


def written_section(data: ReportData) -> tuple[Section, ...]:
    """Both, where there are any."""
    shown: tuple[Block, ...] = (*written_scores(data), *drift_curves(data))
    return (Section("Scores of what is written", shown),) if shown else ()


def _cell(data: ReportData, results: Sequence[SystemResult], name: str, p_value: float | None) -> str:
    """The mean over seeds, below it the 95 % interval, and what a comparison with the baseline gave."""
    digits = DIGITS.get(name, 1)
    between = _interval(data, results, name)
    lines = [fixed(fmean(result.scores[name].value for result in results), digits)]
    lines += [interval(between, digits)] if between else []
    return "\n".join([*lines, *([f"p {equals(p_value)}"] if p_value is not None else [])])


def _interval(data: ReportData, results: Sequence[SystemResult], name: str) -> Interval | None:
    """By resampling texts, and of several seeds their luck; of a score of all texts together by the seeds alone."""
    samples, seed = data.bootstrap_samples, data.bootstrap_seed
    by_text = [result.statistics[name] for result in results if name in result.statistics]
    if len(by_text) == len(results) and len(set(map(len, by_text))) == 1:
        return estimate(name, np.stack(by_text), samples=samples, seed=seed).interval
    if len(results) == 1:
        return None
    # As if there were one text, which every resample has.
    alone = np.array([[[result.scores[name].value, 1.0]] for result in results])
    return estimate(_ratio, alone, samples=samples, seed=seed).interval


def _ratio(sums: FloatArray) -> FloatArray:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _p_values(data: ReportData, name: str) -> dict[str, float]:
    """Of each system against the baseline, on the seeds that both have, by Holm; of scores that can be resampled."""
    found: dict[str, float] = {}
    baseline = {result.seed: result for result in data.results(data.baseline or "")}
    for system in data.system_names:
        pairs = [(result, baseline[result.seed]) for result in data.results(system) if result.seed in baseline]
        statistics = [(ours.statistics.get(name), theirs.statistics.get(name)) for ours, theirs in pairs]
        if system == data.baseline or not _alike(statistics):
            continue
        ours, theirs = (np.stack([pair[side] for pair in statistics]) for side in (0, 1))  # type: ignore[misc]
        found[system] = compare(name, ours, theirs, samples=data.bootstrap_samples, seed=data.bootstrap_seed).p_value
    return dict(zip(found, holm(list(found.values())), strict=True))


def _alike(statistics: Sequence[tuple[FloatArray | None, FloatArray | None]]) -> bool:
    """Whether all are there and of as many texts."""
    sizes = {None if one is None else len(one) for pair in statistics for one in pair}
    return len(sizes) == 1 and None not in sizes


def _mean_drift(results: Sequence[SystemResult]) -> float | None:
    """The mean drift of the selected weights."""
    kept = [point.drift for result in results for point in result.curve if point.step == result.kept_step]
    known = [drift for drift in kept if drift is not None]
    return fmean(known) if known and len(known) == len(results) else None


def _notes(data: ReportData, names: Sequence[str]) -> list[str]:
    against = f" p is two-sided, against {data.baseline}, Holm's for each score." if data.baseline else ""
    scores = data.systems[0].scores
    return [
        *(EXPLAINED[name] for name in names if name in EXPLAINED),
        "Drift: the root median squared distance of feed-forward weights from where finetuning began; – where a model "
        "begins with none that were pretrained.",
        f"Below each score its 95 % interval: {count(data.bootstrap_samples)} resamples of texts, and over several "
        f"seeds their luck by Student's t, which is all there is of distinct.{against}",
        "Signatures: " + "; ".join(f"{name} {scores[name].signature}" for name in names),
    ]
