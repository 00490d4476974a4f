"""The report on models that predict labels: scores, calibration, which classes are confused, and examples of errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.reporting import drawing, findings, report
from subgraft.evaluation.reporting.answer import SCORES_RULE, Answer, answer_by_scores
from subgraft.evaluation.reporting.document import NOTHING_MEASURED, Block, Document, Figure, Measured, Section
from subgraft.evaluation.reporting.numbers import count, fixed
from subgraft.evaluation.reporting.plots import curves_figure, scores_figure
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.results import (
    COSTS,
    LEARNING_CURVES,
    SCORES,
    against_cells,
    model_cost_cells,
    score_cells,
    score_headings,
)
from subgraft.evaluation.reporting.summary import MetricSummary, summarise_scores
from subgraft.evaluation.reporting.table import MainTable, Span, Table, Text, table, text

MAX_ERRORS = 12  # shown
MOST_CLASSES = 40  # of a drawn confusion matrix
_MAX_TEXT_LENGTH, _MAX_LABEL_LENGTH = 300, 28  # characters of a shown text, and of a class in a plot


@dataclass(frozen=True)
class Labelled:
    """The predictions of a model with a head for labels.

    Attributes:
        labels: The classes of a model that predicts one of them.
        confusion: How often each class (row) is predicted as each.
        confidence: The probability of each prediction [n].
    """

    labels: tuple[str, ...] = ()
    confusion: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    confidence: FloatArray | None = field(default=None, compare=False, repr=False)


def labelled_answer(data: ReportData) -> Answer:
    """Which system to take, by the main metric."""
    main = metric_names(data)[0]
    return answer_by_scores(data, {main: summarise_metric(data, main)}, "an example", _lower_is_better([main]))


def build_labelled_document(data: ReportData, answer: Answer, measured: Measured = NOTHING_MEASURED) -> Document:
    """The whole report, in the order in which it is read."""
    sections = (
        Section(SCORES, tuple(_score_tables(data))),
        *measured.after_results,
        Section(COSTS, (_cost_table(data),)),
        Section(LEARNING_CURVES, (findings.selected_steps(data), curves_figure(data))),
        *measured.after_learning,
        *_confusion(data),
        Section("Errors", (_errors(data),)),
        report.subword_gap(data),
        *report.background(data, SCORES_RULE),
    )
    names = metric_names(data)[:2]
    picture = scores_figure(data, {name: summarise_metric(data, name) for name in names}, _lower_is_better(names))
    lead = report.first_screen(data, answer, picture)
    return Document(data.title, report.subtitle(data, "test examples"), sections, lead=lead)


def _lower_is_better(names: Sequence[str]) -> set[str]:
    return {name for name in names if label_metric(name).lower_is_better}


def labelled_table(data: ReportData) -> MainTable:
    """Each system with its main metric by seed, mean, difference and p, the next metric, tokens and examples per
    second."""
    names = metric_names(data)
    main, *others = names
    systems = summarise_metric(data, main)
    caption = f"{count(len(data.references))} test examples; Δ and p against {data.baseline or 'nothing'}"
    caption += findings.caption_remarks(data, {name: summary.compared_seeds for name, summary in systems.items()})
    by_seed = len(data.seeds) > 1
    seeds = [f"{main}\nseed {seed}" for seed in data.seeds] if by_seed else []
    rows = tuple(
        (
            name,
            *([fixed(system.by_seed.get(seed)) for seed in data.seeds] if by_seed else []),
            fixed(system.mean),
            *against_cells(system.comparison),
            *(fixed(_mean_score(data, name, other)) for other in others[:1]),
            *_cost_cells(data.results(name)),
        )
        for name, system in systems.items()
    )
    headings = ("system", *seeds, main, "Δ", "p", *others[:1], "tokens/\nexample", "examples/\ns")
    return MainTable(data.title, caption, headings, rows)


def metric_names(data: ReportData) -> list[str]:
    """The metrics of all systems, the main one first."""
    if not data.systems:
        raise UserError("there are no results to report")
    return [name for name in data.systems[0].scores if all(name in system.scores for system in data.systems)]


@lru_cache(maxsize=16)
def summarise_metric(data: ReportData, name: str) -> dict[str, MetricSummary]:
    """A metric of every system, by the system's name."""
    statistics = {(system.name, system.seed): system.statistics[name] for system in data.systems}
    scores = {(system.name, system.seed): system.scores[name].value for system in data.systems}
    metric = label_metric(name)
    return summarise_scores(data, metric.score, statistics, scores, metric.bounds)


def _mean_score(data: ReportData, system: str, name: str) -> float:
    return fmean(result.scores[name].value for result in data.results(system))


def _cost_cells(results: Sequence[SystemResult]) -> list[str]:
    return [
        fixed(fmean(result.tokens_per_sentence for result in results), 1),
        fixed(fmean(result.sentences_per_second for result in results), 1),
    ]


def _score_tables(data: ReportData) -> list[Table]:
    main, *others = metric_names(data)
    summary, notes = summarise_metric(data, main), _signatures(data, [main])
    rows = [[name, *score_cells(system_summary)] for name, system_summary in summary.items()]
    tables = [table(["system", f"{main}\nby seed", *_headings(data, main)], rows, "Scores on the test set", *notes)]
    if others:
        by_metric = {name: summarise_metric(data, name) for name in others}
        rows_of_others: list[list[str | Text]] = [
            [name, *(cell for system_summary in by_metric.values() for cell in score_cells(system_summary[name])[1:])]
            for name in data.system_names
        ]
        more_headings = ["system", *(heading for name in others for heading in _headings(data, name))]
        tables.append(table(more_headings, rows_of_others, "Other scores on the test set", *_signatures(data, others)))
    return tables


def _headings(data: ReportData, name: str) -> list[str]:
    return score_headings(name, lower_is_better=label_metric(name).lower_is_better)


def _signatures(data: ReportData, names: Sequence[str]) -> list[Text]:
    scores = data.systems[0].scores
    return [text(f"{name}: ", Span(scores[name].signature, "code")) for name in names]


def _cost_table(data: ReportData) -> Table:
    headings = ["system", "tokens per\nexample", "examples\nper second", "parameters", "upstream", "generator"]
    rows = []
    for name in data.system_names:
        results = data.results(name)
        rows.append([name, *_cost_cells(results), *model_cost_cells(results)])
    note = f"Examples per second: predictions in batches of {data.speed_batch_size}. Systems were timed one by one."
    return table(
        [*headings, "finetuning"], rows, "Length, speed and cost; means over seeds", note, *findings.busy_notes(data)
    )


def _confusion(data: ReportData) -> list[Section]:
    """The confusion matrices of the baseline and of the system with the best main score."""
    matrices = dict[str, NDArray[np.int64]]()
    for name in _contrasted_systems(data):
        by_seed = (result.measured(Labelled) for result in data.results(name))
        if confusions := [each.confusion for each in by_seed if each and each.confusion is not None]:
            matrices[name] = np.sum(confusions, axis=0)
    predicted = data.systems[0].measured(Labelled)
    labels = predicted.labels if predicted else ()
    if not matrices or len(labels) > MOST_CLASSES:
        return []
    caption = "Share of each true class (row) that is predicted as each class (column), all seeds."
    return [Section("Confused classes", (Figure("confusion", plot_confusion(labels, matrices), caption),))]


def _contrasted_systems(data: ReportData) -> list[str]:
    """The baseline, and the best of the other systems by the main metric."""
    main = label_metric(metric_names(data)[0])
    sign = -1 if main.lower_is_better else 1
    others = sorted(data.system_names, key=lambda name: -sign * _mean_score(data, name, main.name))
    best = next((name for name in others if name != data.baseline), None)
    return [name for name in (data.baseline, best) if name is not None]


def plot_confusion(labels: Sequence[str], matrices: Mapping[str, NDArray[np.int64]]) -> bytes:
    """A panel per system: the share of each true class (row) that is predicted as each class (column)."""
    names = [_shorten(label, _MAX_LABEL_LENGTH) for label in labels]
    names_width, cells = 0.6 + 0.075 * max(map(len, names)), 0.3 * max(len(names), 5)
    with drawing.new_figure((names_width + cells) * len(matrices), names_width + cells) as figure:
        panels = figure.subplots(1, len(matrices), squeeze=False)[0]
        for panel, (name, matrix) in zip(panels, matrices.items(), strict=True):
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
            panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
            for (row, column), share in np.ndenumerate(shares):
                if share >= 0.005:
                    colour = "white" if share > 0.5 else "#30343b"
                    panel.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
            panel.set_xticks(range(len(names)), names, rotation=90, fontsize=drawing.SMALL)
            panel.set_yticks(range(len(names)), names, fontsize=drawing.SMALL)
            panel.grid(visible=False)
            panel.set(xlabel="predicted", ylabel="true")
            panel.set_title(_shorten(name, int(10 * cells)), fontsize=drawing.SMALL + 0.5)
        return drawing.png(figure)


def _shorten(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def _prediction_errors(data: ReportData, result: SystemResult) -> FloatArray:
    """The error of each prediction [n], by the first metric that is a mean over examples; 0 if it is correct."""
    for name, counts in result.statistics.items():
        if counts.shape[1] == 2:
            value, best = counts.T
            errors: FloatArray = value if label_metric(name).lower_is_better else best - value
            return errors
    pairs = zip(result.hypotheses, data.references, strict=True)
    return np.array([predicted != reference for predicted, reference in pairs], dtype=np.float64)


def _errors(data: ReportData) -> Block:
    """Test examples that the first seed of a system gets wrong."""
    systems = _contrasted_systems(data)
    result = data.results(systems[-1])[0]
    errors = _prediction_errors(data, result)
    wrong = np.flatnonzero(errors > 0).tolist()
    predicted = result.measured(Labelled)
    confidence = predicted.confidence if predicted else None
    ranking = errors if confidence is None else confidence
    headings = ["text", "true", *systems, *([] if confidence is None else ["probability"])]
    rows = []
    for index in _order_errors(data, result, sorted(wrong, key=lambda index: -ranking[index]))[:MAX_ERRORS]:
        texts = [
            data.sources[index],
            data.references[index],
            *(data.results(name)[0].hypotheses[index] for name in systems),
        ]
        probability = [] if confidence is None else [fixed(float(confidence[index]))]
        rows.append([*(text[:_MAX_TEXT_LENGTH] for text in texts), *probability])
    caption = f"{count(len(wrong))} of {count(len(data.references))} test examples that {systems[-1]} predicts wrongly"
    first = "largest" if confidence is None else "surest"
    note = f"Of each kind of error the {first} first, and frequent kinds before rare ones."
    return table(headings, rows, caption, note, left=range(2 + len(systems)))


def _order_errors(data: ReportData, result: SystemResult, wrong: Sequence[int]) -> list[int]:
    """The first error of each kind, frequent kinds first, then the second of each kind, and so on.

    A kind is a pair of a reference and a prediction. `wrong` has the indices of all errors, the surest first.
    """
    kinds = [(data.references[index], result.hypotheses[index]) for index in wrong]
    frequencies = Counter(kinds)
    seen = Counter[tuple[str, str]]()
    order: list[tuple[int, int, int]] = []
    for rank, kind in enumerate(kinds):
        order.append((seen[kind], -frequencies[kind], rank))
        seen[kind] += 1
    return [wrong[rank] for _, _, rank in sorted(order)]
