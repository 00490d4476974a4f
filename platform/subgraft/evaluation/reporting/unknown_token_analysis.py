"""The part of the task's text that vocabularies cannot spell or change, and how much of a gain that may explain."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, percent
from subgraft.evaluation.reporting.records import ReportData, SpelledText
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text

_NAMES = {"encoder": "sources", "decoder": "references"}


def spelling_in_short(data: ReportData) -> list[Text]:
    """How many points of a gain spelling alone may explain, and lost text; empty if it was not measured."""
    tested = [row for row in data.gap.spelling if row.split == "test"]
    if not tested:
        return []
    mask = data.spelled_by_all
    sides = [_describe_loss(data, side, tested) for side in ("decoder", "encoder")]
    lost = [text(Span(line, "strong")) for line in lost_in_words(data)]
    if losses := [*(loss for loss in sides if loss is not None), *lost]:
        return losses
    if mask is not None and not mask.all():
        missed = f"{count(int((~mask).sum()))} of {count(len(mask))} test sentences"
        return [text(f"Some systems' vocabularies cannot spell {missed}.")]
    return [text("Every vocabulary here spells all of the test set: spelling explains no part of a gain.")]


def _describe_loss(data: ReportData, side: str, tested: Sequence[SpelledText]) -> Text | None:
    """Describe the text that the upstream vocabulary cannot spell on one side; None if it spells all of it."""
    by_role = {row.role: row for row in tested if row.side == side}
    upstream, downstream = by_role.get("upstream"), by_role.get("downstream")
    if upstream is None or not upstream.counts.unknown:
        return None
    loss = (
        f"{percent(upstream.counts.unknown_share)} of the tokens of the {_NAMES[side]}, in "
        f"{percent(upstream.counts.with_unknown_share)} of the sentences, cannot be written in the upstream vocabulary"
    )
    if side == "encoder":
        who = "Systems that keep it" if downstream else "Systems that begin with the upstream model"
        return text(Span(loss, "strong"), f". {who} do not see them.")
    ceiling = upstream.scores["BLEU"].value
    highest = downstream.scores["BLEU"].value if downstream else 100.0
    characters = f", which lacks {' '.join(data.gap.unknown_tokens)}" if data.gap.unknown_tokens else ""
    return text(
        Span(loss, "strong"),
        f"{characters}. A perfect model with it would reach BLEU {fixed(ceiling)}, one with the downstream vocabulary "
        f"{fixed(highest)}: up to {fixed(max(0.0, highest - ceiling))} points of a gain may be spelling.",
    )


def lost_in_words(data: ReportData) -> list[str]:
    """Text of the test set that only the downstream vocabulary loses, a line for each side; empty if there is none."""
    downstream, upstream = "the downstream vocabulary", "the upstream one"
    return [
        f"Of the test set's {_NAMES[side]}, {lost.in_words(downstream, upstream)}. A model with it can "
        "neither distinguish this text nor write it, so figures on it compare different texts."
        for side, lost in data.gap.lost.items()
        if lost.lost
    ]


def spelling_table(data: ReportData) -> list[Table]:
    """Counts by text and vocabulary; nothing where they were not taken."""
    if not data.gap.spelling:
        return []
    headings = ["text", "vocabulary", "unknown\ntokens", "sentences\nwith one", "tokens\nof one byte"]
    headings += ["sentences\ngiven back", "BLEU", "chrF"]
    note = (
        "Given back: unchanged by decode(encode(sentence)); vocabularies normalise text, so that some sentences change "
        "though nothing is unknown. BLEU and chrF: of decode(encode(text)) against the text, which no model can exceed."
    )
    rows = [
        [
            f"{row.split}, {_NAMES[row.side]}",
            row.role,
            f"{count(row.counts.unknown)} ({percent(row.counts.unknown_share)})",
            percent(row.counts.with_unknown_share),
            percent(row.counts.byte_share),
            percent(row.counts.round_trip_share),
            *(fixed(row.scores[name].value) if name in row.scores else MISSING for name in ("BLEU", "chrF")),
        ]
        for row in data.gap.spelling
    ]
    return [table(headings, rows, "What each vocabulary can spell", note, left=(0, 1))]


def unknown_token_caption(data: ReportData) -> str:
    """Lines of the terminal table's caption; empty if the vocabularies spell and give back every reference."""
    lost = ""
    if (loss := data.gap.lost.get("decoder")) and loss.lost:
        lost = f"\nthe downstream vocabulary loses text in {percent(loss.share)} of the references: see the report"
    for row in data.gap.spelling:
        if (row.role, row.side, row.split) == ("upstream", "decoder", "test") and row.counts.unknown:
            share = percent(row.counts.unknown_share)
            return f"\nthe upstream vocabulary cannot spell {share} of the reference tokens: see the report" + lost
    return lost
