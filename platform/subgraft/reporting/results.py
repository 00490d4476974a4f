"""The sections of a report that say what came out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from subgraft.metrics.calibration import BINS
from subgraft.metrics.scores import LOWER_IS_BETTER, METRICS, MetricName
from subgraft.reporting.data import ReportData
from subgraft.reporting.document import Block, Bullets, Figure, Paragraph, Section
from subgraft.reporting.examples import Examples, SideBySide, WordRecall, find_examples
from subgraft.reporting.numbers import (
    MISSING,
    count,
    duration,
    fixed,
    interval,
    millions,
    percent,
    probability,
    signed,
)
from subgraft.reporting.palette import MOST_COLOURED
from subgraft.reporting.plots import plot_costs, plot_learning_curves, plot_scores
from subgraft.reporting.summary import RowSummary, summarise
from subgraft.reporting.table import Column, Span, Table, Text, table, text
from subgraft.reporting.words import is_spaceless

SIGNIFICANT = 0.05
# With more rows, the findings are told in groups.
MOST_TOLD = 8
# The scores that a comparison is told by; the others have a table of their own.
MAIN_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")


def in_short(data: ReportData) -> Block:
    """The findings in a few sentences, computed, with no row singled out by its luck."""
    rows, gap = summarise(data), data.gap
    ratio = gap.downstream_tokens_per_sentence / gap.upstream_tokens_per_sentence
    items = [
        text(
            f"The upstream vocabulary lacks {percent(gap.unseen / max(1, gap.seen + gap.unseen))} of the downstream "
            f"vocabulary's subwords. With the downstream one a target sentence takes "
            f"{fixed(gap.downstream_tokens_per_sentence, 1)} tokens instead of "
            f"{fixed(gap.upstream_tokens_per_sentence, 1)} (×{fixed(ratio)})."
        )
    ]
    baseline = next((row for row in rows if row.name == data.baseline), None)
    if baseline is not None:
        items.append(
            text(
                "What the others are compared with is ",
                Span(baseline.name, "strong"),
                f": BLEU {fixed(baseline.metrics['BLEU'].mean)}, {_speed(baseline)}.",
            )
        )
    compared = [row for row in rows if row.metrics["BLEU"].comparison]
    items += [_difference(row) for row in compared] if len(compared) <= MOST_TOLD else _verdicts(compared)
    return Bullets(tuple(items))


def _verdicts(rows: Sequence[RowSummary]) -> list[Text]:
    """Many rows by what is known of their difference, in the order of the table."""
    verdicts = ("significantly higher", "significantly lower", "not significantly different")
    groups: dict[str, list[str]] = {verdict: [] for verdict in verdicts}
    for row in rows:
        comparison = row.metrics["BLEU"].comparison
        assert comparison is not None
        direction = "higher" if comparison.difference > 0 else "lower"
        verdict = f"significantly {direction}" if comparison.p_value < SIGNIFICANT else "not significantly different"
        groups[verdict].append(f"{row.name} ({signed(comparison.difference)})")
    return [
        text(Span(f"BLEU {verdict}", "strong"), f": {count(len(names))} of {len(rows)} rows, {', '.join(names)}.")
        for verdict, names in groups.items()
        if names
    ]


def _speed(row: RowSummary) -> str:
    return f"{fixed(row.sentences_per_second, 1)} sentences per second"


def _difference(row: RowSummary) -> Text:
    comparison = row.metrics["BLEU"].comparison
    assert comparison is not None
    verdict = "significant" if comparison.p_value < SIGNIFICANT else "not significant"
    return text(
        Span(row.name, "strong"),
        f": BLEU {signed(comparison.difference)} {interval(comparison.interval)}, {verdict} "
        f"(p {_equals(comparison.p_value)}), {_speed(row)}.",
    )


def _equals(p_value: float) -> str:
    written = probability(p_value)
    return written if written.startswith("<") else f"= {written}"


def results(data: ReportData) -> Section:
    """Scores with intervals, differences from the baseline, and what each row costs."""
    rows = summarise(data)
    caption = (
        "Test scores: dots are means over seeds, bars their 95 % intervals, small dots single seeds, the dotted line "
        "the baseline. Of TER lower is better, of the others higher."
    )
    costs = f"Speed of generation (batches of {data.speed_batch_size}) and seconds billed for one model of each row."
    return Section(
        "Results",
        (
            _score_table(data, rows),
            _other_scores(data, rows),
            Figure("scores", plot_scores(data, rows), caption),
            _cost_table(data, rows),
            Figure("costs", plot_costs(data, rows), costs),
        ),
    )


def _score_table(data: ReportData, rows: Sequence[RowSummary]) -> Table:
    columns = [Column("row", "left")]
    for metric in MAIN_METRICS:
        columns += [Column(f"{metric}\nby seed"), *_score_columns(metric)]
    body = [
        [_name(row, data), *(cell for metric in MAIN_METRICS for cell in _score_cells(row, metric))] for row in rows
    ]
    return table(columns, body, "Scores on the test set", *_score_notes(data), *_signatures(data, MAIN_METRICS))


def _other_scores(data: ReportData, rows: Sequence[RowSummary]) -> Table:
    """The other metrics, without a column for the seeds."""
    metrics = [metric for metric in METRICS if metric not in MAIN_METRICS]
    columns = [Column("row", "left"), *(column for metric in metrics for column in _score_columns(metric))]
    body = [[_name(row, data), *(cell for metric in metrics for cell in _score_cells(row, metric)[1:])] for row in rows]
    about = "TER counts edits: lower is better, and a negative difference is a gain."
    return table(columns, body, "Other scores on the test set", about, *_signatures(data, metrics))


def _score_columns(metric: MetricName) -> list[Column]:
    better = "\n(lower is better)" if metric in LOWER_IS_BETTER else ""
    return [Column(f"{metric}\nmean [95 %]{better}"), Column(f"Δ {metric}\n[95 %]{better}"), Column("p\n(Holm)")]


def _score_cells(row: RowSummary, metric: MetricName) -> list[str | Text]:
    summary = row.metrics[metric]
    seeds = " · ".join(fixed(value) for value in summary.by_seed.values())
    mean = text(Span(fixed(summary.mean), "strong"), "\n", Span(interval(summary.interval), "faint"))
    comparison = summary.comparison
    if comparison is None:
        return [seeds, mean, MISSING, MISSING]
    difference = text(signed(comparison.difference), "\n", Span(interval(comparison.interval), "faint"))
    return [seeds, mean, difference, probability(comparison.p_value)]


def _score_notes(data: ReportData) -> list[str | Text]:
    seeds = ", ".join(map(str, data.seeds))
    notes: list[str | Text] = [
        f"Seeds: {seeds}. {count(len(data.references))} test sentences.",
        f"Intervals and p-values: paired bootstrap with {count(data.bootstrap_samples)} resamples of sentences"
        + (" and seeds" if len(data.seeds) > 1 else "")
        + f"; p is two-sided, against {data.baseline}, with Holm's correction over the rows of each metric.",
    ]
    if len(data.seeds) == 1:
        notes.append("One seed: the intervals cover the choice of test sentences, not the luck of training.")
    elif len(data.seeds) < 5:
        notes.append(f"{len(data.seeds)} seeds sample the luck of training thinly: true intervals may be wider.")
    return notes


def _signatures(data: ReportData, metrics: Sequence[MetricName]) -> list[Text]:
    found = {row.scores[metric].signature: metric for row in data.rows for metric in metrics}
    return [text(f"{name}: ", Span(signature, "code")) for signature, name in found.items()]


def _cost_table(data: ReportData, rows: Sequence[RowSummary]) -> Table:
    columns = [
        Column("row", "left"),
        Column("bits/char\nstep 0"),
        Column("bits/char\n1st epoch"),
        Column("bits/char\nend"),
        Column("tokens per\nsentence"),
        Column("characters\nper token"),
        Column("inference\nECE"),
        Column("sentences\nper second"),
        Column("parameters"),
        Column("upstream"),
        Column("generator"),
        Column("finetuning"),
    ]
    return table(
        columns,
        [[_name(row, data), *_cost_cells(row)] for row in rows],
        "Fit, length, calibration, speed and cost; means over seeds",
        "Bits per character on the dev set, target side, end of sentence included: comparable across vocabularies.",
        "Tokens per sentence and characters per token: test references in the row's vocabulary. "
        "Inference ECE: how far the probability of output tokens is from how often they are right, by TER alignment "
        f"with the reference in the row's own tokens; {BINS} bins of equal width (Wang et al. 2020); lower is better.",
        f"Sentences per second: beam search in batches of {data.speed_batch_size}.",
        "Upstream, generator, finetuning: time to make one model; rows with the same upstream model share its time.",
        *_cut_outputs(data),
    )


def _cut_outputs(data: ReportData) -> list[str]:
    """How many outputs of each row ran into the length limit, if any did: they hold up their batches."""
    cut = {name: sum(result.cut_outputs for result in data.results(name)) for name in data.row_names}
    if not any(cut.values()):
        return []
    told = ", ".join(f"{name} {count(number)}" for name, number in cut.items())
    return [f"Outputs that were cut at the length limit, all seeds: {told}."]


def _cost_cells(row: RowSummary) -> list[str]:
    return [
        fixed(row.bits.start, 3),
        fixed(row.bits.first_epoch, 3),
        fixed(row.bits.end, 3),
        fixed(row.tokens_per_sentence, 1),
        fixed(row.characters_per_token),
        fixed(row.inference_ece, 3),
        fixed(row.sentences_per_second, 1),
        millions(row.parameters),
        duration(row.bill.upstream) if row.bill.upstream else MISSING,
        duration(row.bill.generator) if row.bill.generator else MISSING,
        duration(row.bill.finetuning),
    ]


def _name(row: RowSummary, data: ReportData) -> Text:
    return text(Span(row.name, "strong"), Span("\nbaseline", "faint")) if row.name == data.baseline else text(row.name)


def learning(data: ReportData) -> Section:
    """Dev curves during finetuning."""
    caption = "Means over seeds, bands from the least seed to the greatest. Every row sees the same batches."
    if len(data.row_names) - (data.baseline in data.row_names) > MOST_COLOURED:
        caption += (
            f" In colour, here and elsewhere, are the {MOST_COLOURED} rows with the best dev BLEU; others are grey."
        )
    return Section("Learning curves", (Figure("learning_curves", plot_learning_curves(data), caption),))


def translations(data: ReportData) -> Section:
    """Outputs side by side for over-segmented words, and how often each row gets such words."""
    examples = find_examples(data)
    unit = "subwords" if is_spaceless(data.languages[1]) else "words"
    about = (
        f"{count(len(data.over_segmented))} distinct {unit} of the test references are cut into three pieces or more "
        "by the upstream vocabulary. The table counts how many of their occurrences each row's outputs contain. The "
        "sentences below it are chosen by rule: those first in which most rows differ from the baseline."
    )
    blocks: list[Block] = [Paragraph(text(about)), _recall_table(data, examples)]
    for shown, what in (
        (examples.gained, "missed by the baseline, found by others"),
        (examples.lost, "found by the baseline, missed by others"),
    ):
        blocks += [_side_by_side(example, what) for example in shown]
    return Section("Outputs side by side", tuple(blocks))


def _recall_table(data: ReportData, examples: Examples) -> Table:
    columns = [
        Column("row", "left"),
        Column("words found"),
        Column("of"),
        Column("share"),
        Column("gained on\nthe baseline"),
        Column("lost to\nthe baseline"),
    ]
    rows = [_recall_cells(recall) for recall in examples.recalls]
    return table(columns, rows, "Over-segmented words of the references found in the outputs, all seeds")


def _recall_cells(recall: WordRecall) -> list[str]:
    share = percent(recall.found / recall.total) if recall.total else MISSING
    against = [MISSING if value is None else count(value) for value in (recall.gained, recall.lost)]
    return [recall.name, count(recall.found), count(recall.total), share, *against]


def _side_by_side(example: SideBySide, what: str) -> Table:
    pieces = " ".join(example.pieces)
    rows: list[list[str | Text]] = [
        [text(Span("source", "faint")), example.source],
        [text(Span("reference", "faint")), highlight(example.reference, example.word)],
    ]
    rows += [
        [output.name, highlight(output.text, example.word) if output.has_word else output.text]
        for output in example.outputs
    ]
    caption = f"{example.word} ({pieces}), {what}, seed {example.seed}"
    return table([Column("", "left"), Column("", "left")], rows, caption)


def highlight(sentence: str, word: str) -> Text:
    """The sentence with every occurrence of the word marked; inside longer words only where it stands nowhere alone."""
    alone = re.split(rf"(?<!\w)({re.escape(word)})(?!\w)", sentence)
    parts = alone if len(alone) > 1 else re.split(f"({re.escape(word)})", sentence)
    return tuple(Span(part, "mark" if index % 2 else "plain") for index, part in enumerate(parts) if part)
