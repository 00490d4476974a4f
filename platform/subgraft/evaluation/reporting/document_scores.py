"""The section of a report on translated documents: d-BLEU, and s-BLEU where sentences can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting.document import Section
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed
from subgraft.evaluation.reporting.records import DocumentScores, ReportData
from subgraft.evaluation.reporting.table import Span, Text, table, text


def document_scores(data: ReportData) -> list[Section]:
    """Empty where outputs were not scored by document."""
    scored = {
        name: [result.documents for result in data.results(name) if result.documents is not None]
        for name in data.system_names
    }
    if not all(scored.values()):
        return []
    some = next(iter(scored.values()))[0]
    signatures = {score.signature: score for of_system in scored.values() for score in _scores(of_system)}
    shown = table(
        ["system", "d-BLEU\nby seed", "d-BLEU\nmean", "s-BLEU\nby seed", "s-BLEU\nmean", "documents of\nother lengths"],
        [[name, *_cells(of_system)] for name, of_system in scored.items()],
        f"BLEU of {count(some.count)} documents",
        "d-BLEU: each document is one segment, as in all other scores of this report, whose bootstrap resamples "
        "documents. s-BLEU: its sentences are segments; where a document has another number of sentences than its "
        "reference, they cannot be compared.",
        "Documents of other lengths: those with another number of sentences than their references, by seed.",
        *(text("BLEU: ", Span(signature, "code")) for signature in signatures),
    )
    return [Section("Documents", (shown,))]


def _scores(of_system: Sequence[DocumentScores]) -> list[Score]:
    both = [score for each in of_system for score in (each.by_document, each.by_sentence)]
    return [score for score in both if score is not None]


def _cells(of_system: Sequence[DocumentScores]) -> list[str | Text]:
    documents = [each.by_document.value for each in of_system]
    sentences = [None if each.by_sentence is None else each.by_sentence.value for each in of_system]
    known = [value for value in sentences if value is not None]
    mean = fixed(fmean(known)) if len(known) == len(sentences) else MISSING
    return [
        " · ".join(map(fixed, documents)),
        text(Span(fixed(fmean(documents)), "strong")),
        " · ".join(MISSING if value is None else fixed(value) for value in sentences),
        mean,
        " · ".join(count(each.differing) for each in of_system),
    ]
