"""The report on models that predict labels: scores, calibration, which classes are confused, and examples of errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.reporting import drawing, findings, report
from subgraft.evaluation.reporting.auxiliary_metrics import Reliability, plot_reliability
from subgraft.evaluation.reporting.document import Block, Document, Figure, Section, write_document
from subgraft.evaluation.reporting.numbers import (
    count,
    fixed,
)
from subgraft.evaluation.reporting.plots import learning_panels, plot_learning_curves
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.results import against_cells, model_cost_cells, score_cells, score_headings
from subgraft.evaluation.reporting.summary import MetricSummary, pooled_bins, summarise_scores
from subgraft.evaluation.reporting.table import MainTable, Span, Table, Text, table, text

SHOWN = 12  # errors
MOST_CLASSES = 40  # of a drawn confusion matrix
_LONGEST, _LONGEST_LABEL = 300, 28  # characters of a shown text, and of a class in a plot


def write_labelled_report(data: ReportData, out: Path) -> None:
    """Write report.html, report.md and plots/*.png into the existing directory `out`."""
    write_document(build_labelled_document(data), out)


def build_labelled_document(data: ReportData) -> Document:
    """The whole report, in the order in which it is read."""
    caption = "Means over seeds, bands from the least seed to the greatest. Every system sees the same batches."
    curves = Figure("learning_curves", plot_learning_curves(data), caption, learning_panels(data))
    notices = (*findings.generated_notice(data.generated), *findings.untrained_notice(data))
    sections = [
        Section("Results", (*notices, *_score_tables(data), _cost_table(data))),
        Section("Learning curves", (findings.selected_steps(data), curves)),
        *_calibration(data),
        *_confusion(data),
        Section("Errors", (_errors(data),)),
        report.subword_gap(data),
        *report.background(data),
    ]
    about = f"{data.languages[0]} · {len(data.system_names)} systems · {count(len(data.references))} test examples"
    return Document(data.title, about, tuple(sections))


def labelled_table(data: ReportData) -> MainTable:
    """Each system with its main metric by seed, mean, difference and p, the next metric, tokens and examples per
    second."""
    names = metric_names(data)
    main, *others = names
    systems = summarised(data, main)
    caption = f"{count(len(data.references))} test examples; Δ and p against {data.baseline or 'nothing'}"
    caption += findings.caption_remarks(data, {name: one.compared_seeds for name, one in systems.items()})
    several = len(data.seeds) > 1
    seeds = [f"{main}\nseed {seed}" for seed in data.seeds] if several else []
    rows = tuple(
        (
            name,
            *([fixed(system.by_seed.get(seed)) for seed in data.seeds] if several else []),
            fixed(system.mean),
            *against_cells(system.comparison),
            *(fixed(_mean_score(data, name, other)) for other in others[:1]),
            *_figures(data.results(name)),
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


def summarised(data: ReportData, name: str) -> dict[str, MetricSummary]:
    """A metric of every system, by the system's name."""
    statistics = {(system.name, system.seed): system.statistics[name] for system in data.systems}
    scores = {(system.name, system.seed): system.scores[name].value for system in data.systems}
    metric = label_metric(name)
    return summarise_scores(data, metric.score, statistics, scores, metric.bounds)


def _mean_score(data: ReportData, system: str, name: str) -> float:
    return fmean(result.scores[name].value for result in data.results(system))


def _figures(results: Sequence[SystemResult]) -> list[str]:
    return [
        fixed(fmean(result.tokens_per_sentence for result in results), 1),
        fixed(fmean(result.sentences_per_second for result in results), 1),
    ]


def _score_tables(data: ReportData) -> list[Table]:
    main, *others = metric_names(data)
    against = f" p is two-sided, against {data.baseline}, with Holm's correction." if data.baseline else ""
    summary = summarised(data, main)
    notes: tuple[str | Text, ...] = (
        f"Intervals and p-values: paired bootstrap with {count(data.bootstrap_samples)} resamples of test examples, "
        f"and over several seeds their variance by Student's t.{against}",
        *findings.on_few_seeds({name: one.compared_seeds for name, one in summary.items()}),
        *_signatures(data, [main]),
    )
    rows = [[name, *score_cells(one)] for name, one in summary.items()]
    tables = [table(["system", f"{main}\nby seed", *_headings(data, main)], rows, "Scores on the test set", *notes)]
    if others:
        by_metric = {name: summarised(data, name) for name in others}
        more: list[list[str | Text]] = [
            [name, *(cell for one in by_metric.values() for cell in score_cells(one[name])[1:])]
            for name in data.system_names
        ]
        more_headings = ["system", *(each for name in others for each in _headings(data, name))]
        tables.append(table(more_headings, more, "Other scores on the test set", *_signatures(data, others)))
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
        rows.append([name, *_figures(results), *model_cost_cells(results)])
    note = f"Examples per second: predictions in batches of {data.speed_batch_size}. Systems were timed one by one."
    return table(
        [*headings, "finetuning"], rows, "Length, speed and cost; means over seeds", note, *findings.busy_notes(data)
    )


def _calibration(data: ReportData) -> list[Section]:
    """Reliability diagrams, where classes are predicted."""
    shown = []
    for name in data.system_names:
        results = data.results(name)
        errors = [result.inference_ece for result in results if result.inference_ece is not None]
        if bins := pooled_bins(results):
            shown.append(Reliability(name, bins, fmean(errors)))
    if not shown:
        return []
    caption = (
        "Test examples by the probability of the predicted class, all seeds; the larger the dot, the more examples. "
        "Below the diagonal (orange) a model is overconfident, above it (blue) underconfident."
    )
    return [Section("Calibration", (Figure("reliability", plot_reliability(shown, "class"), caption),))]


def _confusion(data: ReportData) -> list[Section]:
    """The confusion matrices of the baseline and of the system with the best main score."""
    drawn = {name: matrix for name in _contrasted(data) if (matrix := _pooled_confusion(data, name)) is not None}
    labels = data.systems[0].labels
    if not drawn or len(labels) > MOST_CLASSES:
        return []
    caption = "Share of each true class (row) that is predicted as each class (column), all seeds."
    return [Section("Confused classes", (Figure("confusion", plot_confusion(labels, drawn), caption),))]


def _contrasted(data: ReportData) -> list[str]:
    """The baseline, and the best of the other systems by the main metric."""
    main = label_metric(metric_names(data)[0])
    sign = -1 if main.lower_is_better else 1
    others = sorted(data.system_names, key=lambda name: -sign * _mean_score(data, name, main.name))
    best = next((name for name in others if name != data.baseline), None)
    return [name for name in (data.baseline, best) if name is not None]


def _pooled_confusion(data: ReportData, name: str) -> NDArray[np.int64] | None:
    matrices = [result.confusion for result in data.results(name) if result.confusion is not None]
    return np.sum(matrices, axis=0) if matrices else None


def plot_confusion(labels: Sequence[str], matrices: Mapping[str, NDArray[np.int64]]) -> bytes:
    """A panel per system: the share of each true class (row) that is predicted as each class (column)."""
    names = [_shortened(label, _LONGEST_LABEL) for label in labels]
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
            panel.set_title(_shortened(name, int(10 * cells)), fontsize=drawing.SMALL + 0.5)
        return drawing.png(figure)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _misses(data: ReportData, shown: SystemResult) -> FloatArray:
    """How far each prediction is from right, by the first metric that is a mean over examples [n]; 0 if it is right."""
    for name, counts in shown.statistics.items():
        if counts.shape[1] == 2:
            value, one = counts.T
            misses: FloatArray = value if label_metric(name).lower_is_better else one - value
            return misses
    both = zip(shown.hypotheses, data.references, strict=True)
    return np.array([predicted != wanted for predicted, wanted in both], dtype=np.float64)


def _errors(data: ReportData) -> Block:
    """Test examples that the first seed of a system gets wrong."""
    systems = _contrasted(data)
    shown = data.results(systems[-1])[0]
    misses = _misses(data, shown)
    wrong = np.flatnonzero(misses > 0).tolist()
    kinds = Counter((data.references[place], shown.hypotheses[place]) for place in wrong)
    confidence = shown.confidence if shown.confidence is not None else misses
    by_kind = sorted(wrong, key=lambda place: -confidence[place])
    order: list[tuple[int, int, int]] = []
    seen = Counter[tuple[str, str]]()
    for rank, place in enumerate(by_kind):
        kind = (data.references[place], shown.hypotheses[place])
        order.append((seen[kind], -kinds[kind], rank))
        seen[kind] += 1
    headings = ["text", "true", *systems, *(["probability"] if shown.confidence is not None else [])]
    rows = []
    for place in (by_kind[rank] for _, _, rank in sorted(order)[:SHOWN]):
        sure = [fixed(float(confidence[place]))] if shown.confidence is not None else []
        outputs = [data.results(name)[0].hypotheses[place][:_LONGEST] for name in systems]
        rows.append([data.sources[place][:_LONGEST], data.references[place][:_LONGEST], *outputs, *sure])
    caption = f"{count(len(wrong))} of {count(len(data.references))} test examples that {systems[-1]} predicts wrongly"
    first = "surest" if shown.confidence is not None else "largest"
    note = f"Of each kind of error the {first} first, and frequent kinds before rare ones."
    return table(headings, rows, caption, note, left=range(2 + len(systems)))
