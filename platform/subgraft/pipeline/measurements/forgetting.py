"""What a finetuning forgets: the upstream test set, translated or continued before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from safetensors.numpy import load_file

from subgraft.config.plugins import METRICS, packages
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, ratio
from subgraft.evaluation.metrics.significance import Comparison, compare
from subgraft.evaluation.reporting.continuation import summarise_lines, taken_whole
from subgraft.evaluation.reporting.document import MainColumn, Section
from subgraft.evaluation.reporting.findings import on_few_seeds
from subgraft.evaluation.reporting.numbers import MISSING, fixed, interval, probability, signed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import MetricSummary
from subgraft.evaluation.reporting.table import Span, Text, table, text
from subgraft.pipeline.artifacts import BITS, STATISTICS, read_evaluation, read_line_bits
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Node, Planned, Sources, Subject
from subgraft.pipeline.stages.evaluation import TEST_SET, EvaluateStage
from subgraft.training.objectives.translation import TranslationSettings

BEFORE, AFTER = "upstream_before", "upstream_after"
TEST_SET_NAME = "upstream"


def _steps(subject: Subject) -> dict[str, Planned]:
    """Evaluations of the system's initial model, if that was pretrained, and of the finetuned one."""
    experiment, settings = subject.experiment, subject.experiment.evaluation
    on_text = experiment.finetuned_on.on_plain_text(experiment.upstream.objectives)
    if settings.upstream_sentences is None:
        return {}
    changes = {"test_sentences": settings.upstream_sentences, "calibration": False, "documents": False}
    if on_text is not None:  # bits are what is compared
        changes |= {"speed_sentences": 1, "speed_repeats": 1}
    stage = EvaluateStage(
        languages=experiment.upstream_languages,
        evaluation=settings.measurement.model_copy(update=changes),
        packages=packages(METRICS, settings.metrics),
        speed=False,
        objective=TranslationSettings() if on_text is None else on_text,
    )

    def evaluation_of(model: Node, **labels: str) -> Planned:
        assert subject.upstream_corpus is not None
        inputs = {"model": model, "corpus": subject.upstream_corpus}
        name = f"evaluate {model.name} on the upstream test set"
        return Planned(stage, name, inputs, {TEST_SET: TEST_SET_NAME, **labels})

    before = {BEFORE: evaluation_of(subject.pretrained)} if subject.pretrained else {}
    return {**before, AFTER: evaluation_of(subject.finetune, **subject.finetune.labels)}


@dataclass(frozen=True)
class Forgetting:
    """BLEU on the upstream test set, of the finetuned model, and of the pretrained model it began with, if any.

    statistics: of BLEU's sentences, see `metrics.sentence_statistics` [sentences, counts].
    """

    after: Score
    after_statistics: FloatArray = field(compare=False, repr=False)
    before: Score | None = None
    before_statistics: FloatArray | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class UpstreamBits:
    """Bits of each upstream test line and its characters [n, 2], of the finetuned and the pretrained model."""

    after: FloatArray = field(compare=False, repr=False)
    before: FloatArray | None = field(default=None, compare=False, repr=False)


def _read(sources: Sources) -> Forgetting | UpstreamBits | None:
    after, before = (sources.steps.get(part) for part in (AFTER, BEFORE))
    if after is None:
        return None
    if BITS in load_file(after / STATISTICS):
        return UpstreamBits(read_line_bits(after), read_line_bits(before) if before else None)
    return Forgetting(*_bleu(after), *(_bleu(before) if before else ()))


def _bleu(evaluated: Path) -> tuple[Score, FloatArray]:
    evaluation = read_evaluation(evaluated)
    return Score(**evaluation["scores"]["BLEU"]), load_file(evaluated / STATISTICS)["BLEU"]


@dataclass(frozen=True)
class ForgettingSummary:
    """BLEU on the upstream test set. before, change: None for a system whose model was not pretrained."""

    before: float | None
    after: float
    change: Comparison | None


def summarise_forgetting(by_seed: Sequence[Forgetting], samples: int, seed: int) -> ForgettingSummary:
    """Before and after, with a paired bootstrap of the difference.

    All seeds of a system start from one model, so the score before finetuning does not depend on the seed.
    """
    after = fmean(each.after.value for each in by_seed)
    before = [each.before.value for each in by_seed if each.before is not None]
    statistics = [each.before_statistics for each in by_seed if each.before_statistics is not None]
    if len(before) != len(by_seed) or len(statistics) != len(by_seed):
        return ForgettingSummary(None, after, None)
    statistics_after = np.stack([each.after_statistics for each in by_seed])
    change = compare("BLEU", statistics_after, np.stack(statistics), samples=samples, seed=seed)
    return ForgettingSummary(fmean(before), after, change)


def _translated(data: ReportData) -> list[Section]:
    """BLEU on the upstream test set before and after finetuning."""
    systems = data.measured(Forgetting)
    if not systems:
        return []
    rows = list[list[str | Text]]()
    for name, by_seed in systems.items():
        summary = summarise_forgetting(by_seed, data.bootstrap_samples, data.bootstrap_seed)
        if (change := summary.change) is None:
            rows.append([name, MISSING, fixed(summary.after), MISSING, MISSING])
            continue
        difference = text(signed(change.difference), "\n", Span(interval(change.interval), "faint"))
        rows.append([name, fixed(summary.before), fixed(summary.after), difference, probability(change.p_value)])
    comparison = table(
        ["system", "upstream BLEU\nbefore", "upstream BLEU\nafter", "Δ upstream BLEU\n[95 %]", "p"],
        rows,
        "The upstream test set, translated before finetuning and after",
        "Before: the system's initial model with its own vocabulary, before any transfer.",
        "Intervals and p-values: paired bootstrap as for the task's test set, without a correction for the number of "
        "systems. A negative difference is forgetting.",
        *on_few_seeds({name: len(by_seed) for name, by_seed in systems.items()}),
    )
    return [Section("Forgetting", (comparison,))]


def _column(data: ReportData) -> MainColumn | None:
    """BLEU on the upstream test set after finetuning."""
    systems = data.measured(Forgetting)
    cells = {name: fixed(fmean(each.after.value for each in by_seed)) for name, by_seed in systems.items()}
    return MainColumn("upstr.\nBLEU", cells) if cells else None


def summarise_upstream_bits(data: ReportData) -> tuple[dict[str, MetricSummary], float | None]:
    """Bits per character of the upstream test set after finetuning, by system, and those before any finetuning.

    Both are empty unless they were measured for all systems.
    """
    runs = {(system.name, system.seed): system.measured(UpstreamBits) for system in data.systems}
    measured = {run: bits for run, bits in runs.items() if bits is not None}
    if not measured or len(measured) < len(runs):
        return {}, None
    after = {run: bits.after for run, bits in measured.items()}
    before = next((bits.before for bits in measured.values() if bits.before is not None), None)
    if before is None:
        return summarise_lines(data, after), None
    complete = taken_whole([before, *after.values()])
    return summarise_lines(data, after), float(ratio(before[complete].sum(axis=0)))


def compare_upstream_bits(data: ReportData) -> dict[str, Comparison]:
    """Differences from the baseline on the upstream test set, by system; empty if they were not measured."""
    systems, _ = summarise_upstream_bits(data)
    return {name: system.comparison for name, system in systems.items() if system.comparison is not None}


def _continued(data: ReportData) -> list[Section]:
    """Bits of the upstream test set before and after finetuning."""
    systems, before = summarise_upstream_bits(data)
    if not systems:
        return []
    start = MISSING if before is None else fixed(before, 3)
    rows = list[list[str | Text]]()
    for name, system in systems.items():
        compared = system.comparison
        change = MISSING if before is None else signed(system.mean - before, 3)
        against = [signed(compared.difference, 3), interval(compared.interval, 3)] if compared else [MISSING] * 2
        rows.append([name, start, fixed(system.mean, 3), interval(system.interval, 3), change, *against])
    headings = ["system", "before", "after", "95 %", "change", f"Δ from\n{data.baseline or '–'}", "95 %"]
    note = "Before: the initial model with its own vocabulary. What a finetuning adds is forgetting."
    return [Section("Forgetting", (table(headings, rows, "Bits per character of the upstream test set", note),))]


FORGETTING = MeasurementSpec(
    parts=(BEFORE, AFTER),
    steps=_steps,
    compared={AFTER: TEST_SET_NAME},
    read=_read,
    after_results={"continuation": _continued},
    after_learning={"translation": _translated},
    column=_column,
)
