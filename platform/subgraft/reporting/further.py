"""The sections of a report on what lies beside the scores; each is there only where it has something to show."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.metrics.calibration import BINS
from subgraft.reporting.beside import ForgettingSummary
from subgraft.reporting.data import Intrinsic, ReportData
from subgraft.reporting.document import Block, Figure, Paragraph, Section
from subgraft.reporting.numbers import MISSING, count, fixed, interval, percent, probability, signed
from subgraft.reporting.quality_plots import plot_intrinsic, plot_reliability
from subgraft.reporting.remarks import on_few_seeds
from subgraft.reporting.summary import RowSummary, summarise
from subgraft.reporting.sweep_plots import plot_front, plot_generator_steps, plot_granularity, size_series, step_series
from subgraft.reporting.table import Column, Span, Text, table, text


def quality_and_speed(data: ReportData) -> list[Section]:
    """BLEU against speed."""
    rows = summarise(data)
    if len(rows) < 2:
        return []
    caption = (
        "Means over seeds. Bold rows are beaten by no other in both speed and BLEU; the line joins them. There are no "
        "intervals here: those of the table say what may be luck."
    )
    return [Section("Quality and speed", (Figure("quality_and_speed", plot_front(data, rows), caption),))]


def sweeps(data: ReportData) -> list[Section]:
    """What the vocabulary's size and the generator's training change, where rows differ in these."""
    rows = summarise(data)
    blocks: list[Block] = []
    if size_series(rows):
        about = (
            "Rows that differ in the size of their vocabulary alone, as in figure 3 of Liu et al. (2021). Means over "
            "seeds; bars are 95 % intervals; the dashed line is the baseline. ECE is over tokens of each vocabulary."
        )
        blocks.append(Figure("granularity", plot_granularity(data, rows), about))
    if step_series(rows):
        about = (
            "Rows that differ in the steps of their generator's training alone, as in figure 4 of Liu et al. (2021). "
            "At step 0 a generator is the plain mean of the similar tokens, which is `avg`. Bars are 95 % intervals."
        )
        blocks.append(Figure("generator_steps", plot_generator_steps(data, rows), about))
    return [Section("Sweeps", tuple(blocks))] if blocks else []


def calibration(data: ReportData) -> list[Section]:
    """Reliability diagrams of the rows whose calibration was measured."""
    rows = [row for row in summarise(data) if any(each.count for each in row.bins)]
    if not rows:
        return []
    caption = (
        f"Tokens of the test outputs in {BINS} bins of probability, all seeds; the larger the dot, the more tokens. "
        "Below the diagonal (orange) a model is surer than it is right, above it (blue) less sure. Right is what the "
        "TER alignment pairs with an equal token of the reference, in the row's own tokens."
    )
    return [Section("Calibration", (Figure("reliability", plot_reliability(rows), caption),))]


def forgetting(data: ReportData) -> list[Section]:
    """BLEU on the upstream test set before and after finetuning."""
    rows = [row for row in summarise(data) if row.forgetting is not None]
    found = [(row.name, row.forgetting) for row in rows if row.forgetting is not None]
    if not found:
        return []
    columns = [
        Column("row", "left"),
        Column("upstream BLEU\nbefore"),
        Column("upstream BLEU\nafter"),
        Column("Δ upstream BLEU\n[95 %]"),
        Column("p"),
    ]
    shown = table(
        columns,
        [_forgetting_cells(name, summary) for name, summary in found],
        "The upstream test set, translated before finetuning and after",
        "Before: the model that the row begins with, with the vocabulary it was pretrained with, before any transfer.",
        "Intervals and p-values: paired bootstrap as for the task's test set, without a correction for the number of "
        "rows. A negative difference is what was forgotten.",
        *on_few_seeds({row.name: len(row.seeds) for row in rows}),
    )
    return [Section("Forgetting", (shown,))]


def _forgetting_cells(name: str, found: ForgettingSummary) -> list[str | Text]:
    change = found.change
    if change is None:
        return [name, MISSING, fixed(found.after), MISSING, MISSING]
    difference = text(signed(change.difference), "\n", Span(interval(change.interval), "faint"))
    return [name, fixed(found.before), fixed(found.after), difference, probability(change.p_value)]


def intrinsic_quality(data: ReportData) -> list[Section]:
    """How well each initialiser makes rows that are known."""
    measured = [row for row in summarise(data) if row.intrinsic]
    if not measured:
        return []
    sides = list(dict.fromkeys(side for row in measured for side in row.intrinsic))
    blocks: list[Block] = [Paragraph(text(_ABOUT_INTRINSIC))]
    for side in sides:
        rows = [row for row in measured if side in row.intrinsic]
        caption = f"Rows made for held-out tokens, against the true ones; {side}; means over tokens and seeds."
        blocks.append(Figure(f"intrinsic_{side}", plot_intrinsic(data, rows, side), caption))
        blocks.append(_intrinsic_table(rows, side))
    return [Section("Intrinsic quality", tuple(blocks))]


_ABOUT_INTRINSIC = (
    "A sample of word-like tokens that both vocabularies have is taken out of the upstream vocabulary, all at once. "
    "Each row's initialiser makes their input rows as if they were unseen. This is measured before finetuning: a row "
    "that is far from the true one may still be learnt. Rows with a vocabulary of another size have another sample."
)


def _intrinsic_table(rows: Sequence[RowSummary], side: str) -> Block:
    columns = [
        Column("row", "left"),
        Column("held-out\ntokens"),
        Column("cosine\nmean"),
        Column("cosine\nmedian"),
        Column("mean reciprocal\nrank"),
        Column("hits\nat 1"),
        Column("hits\nat 10"),
    ]
    about = "Rank: of the true row among all upstream rows, by their cosine with the row that was made."
    body = [[row.name, *_intrinsic_cells(row.intrinsic[side])] for row in rows]
    return table(columns, body, f"Held-out tokens of the {side}", about)


def _intrinsic_cells(found: Intrinsic) -> list[str]:
    return [
        count(found.tokens),
        fixed(found.cosine, 3),
        fixed(found.median_cosine, 3),
        fixed(found.reciprocal_rank, 3),
        percent(found.hits_at_1),
        percent(found.hits_at_10),
    ]
