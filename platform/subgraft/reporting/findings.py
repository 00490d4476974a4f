"""The findings of a report in a few sentences, computed."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.reporting.data import ReportData
from subgraft.reporting.document import Block, Bullets
from subgraft.reporting.numbers import count, fixed, interval, percent, signed
from subgraft.reporting.remarks import group, remarks, verdict
from subgraft.reporting.spelled import spelling_in_short
from subgraft.reporting.summary import RowSummary, summarise
from subgraft.reporting.table import Span, Text, text

# With more rows, the findings are told in groups.
MOST_TOLD = 8


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
    items += spelling_in_short(data)
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
    return Bullets((*items, *map(text, remarks(data))))


def _verdicts(rows: Sequence[RowSummary]) -> list[Text]:
    """Many rows by what may be said of their difference, in the order of the table."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        comparison = row.metrics["BLEU"].comparison
        assert comparison is not None
        groups.setdefault(group(comparison), []).append(f"{row.name} ({signed(comparison.difference)})")
    return [
        text(Span(f"BLEU {shared}", "strong"), f": {count(len(names))} of {len(rows)} rows, {', '.join(names)}.")
        for shared, names in groups.items()
    ]


def _speed(row: RowSummary) -> str:
    return f"{fixed(row.sentences_per_second, 1)} sentences per second"


def _difference(row: RowSummary) -> Text:
    comparison = row.metrics["BLEU"].comparison
    assert comparison is not None
    return text(
        Span(row.name, "strong"),
        f": BLEU {signed(comparison.difference)} {interval(comparison.interval)}, {verdict(comparison)}, "
        f"{_speed(row)}.",
    )
