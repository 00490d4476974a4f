"""The section of a report that shows outputs side by side, and words that were found or missed."""

from __future__ import annotations

import re

from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.document import Block, Paragraph, Section
from subgraft.evaluation.reporting.examples import Examples, SideBySide, WordRecall, find_examples
from subgraft.evaluation.reporting.numbers import MISSING, count, percent
from subgraft.evaluation.reporting.table import Column, Span, Table, Text, table, text
from subgraft.evaluation.reporting.segmented_words import is_spaceless


def translations(data: ReportData) -> Section:
    """Outputs side by side for over-segmented words, and how often each system gets such words."""
    examples = find_examples(data)
    unit = "subwords" if is_spaceless(data.languages[1]) else "words"
    about = (
        f"{count(len(data.over_segmented))} distinct {unit} of the test references are cut into three pieces or more "
        "by the upstream vocabulary. The table counts how many of their occurrences each system's outputs contain. The "
        "sentences below it are chosen by rule: those first in which most systems differ from the baseline."
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
        Column("system", "left"),
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
