"""The findings of a report in a few sentences, computed."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.document import Block, Bullets
from subgraft.evaluation.reporting.numbers import count, fixed, interval, percent, signed
from subgraft.evaluation.reporting.remarks import few_seeds, group, verdict
from subgraft.evaluation.reporting.unknown_token_analysis import spelling_in_short
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.evaluation.reporting.table import Span, Text, text

# With more systems, the findings are given by group.
MOST_TOLD = 8


def in_short(data: ReportData) -> Block:
    """The findings in a few sentences, computed, with no system singled out by its luck."""
    systems, gap = summarise(data), data.gap
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
    baseline = next((system for system in systems if system.name == data.baseline), None)
    if baseline is not None:
        items.append(
            text(
                "What the others are compared with is ",
                Span(baseline.name, "strong"),
                f": BLEU {fixed(baseline.metrics['BLEU'].mean)}, {_speed(baseline)}.",
            )
        )
    compared = [system for system in systems if system.metrics["BLEU"].comparison]
    items += [_difference(system) for system in compared] if len(compared) <= MOST_TOLD else _verdicts(compared)
    return Bullets((*items, *map(text, few_seeds(data))))


def _verdicts(systems: Sequence[SystemSummary]) -> list[Text]:
    """Many systems by what may be said of their difference, in the order of the table."""
    groups: dict[str, list[str]] = {}
    for system in systems:
        comparison = system.metrics["BLEU"].comparison
        assert comparison is not None
        groups.setdefault(group(comparison), []).append(f"{system.name} ({signed(comparison.difference)})")
    return [
        text(Span(f"BLEU {shared}", "strong"), f": {count(len(names))} of {len(systems)} systems, {', '.join(names)}.")
        for shared, names in groups.items()
    ]


def _speed(system: SystemSummary) -> str:
    return f"{fixed(system.sentences_per_second, 1)} sentences per second"


def _difference(system: SystemSummary) -> Text:
    comparison = system.metrics["BLEU"].comparison
    assert comparison is not None
    return text(
        Span(system.name, "strong"),
        f": BLEU {signed(comparison.difference)} {interval(comparison.interval)}, {verdict(comparison)}, "
        f"{_speed(system)}.",
    )
