"""d-BLEU and s-BLEU of outputs that are scored by document."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting.document import Section
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import Span, Text, table, text
from subgraft.pipeline.artifacts import read_evaluation
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Sources


@dataclass(frozen=True)
class DocumentScores:
    """Scores of translated documents.

    count: the documents.  differing: those with another number of sentences than their references.
    by_sentence: s-BLEU; None if any differs.
    """

    count: int
    differing: int
    by_document: Score
    by_sentence: Score | None


def _read(sources: Sources) -> DocumentScores | None:
    evaluation = read_evaluation(sources.evaluation)
    if (scored := evaluation.get("documents")) is None:
        return None
    by_sentence = Score(**scored["s-BLEU"]) if scored["s-BLEU"] else None
    return DocumentScores(scored["count"], scored["differing"], Score(**scored["d-BLEU"]), by_sentence)


def _section(data: ReportData) -> list[Section]:
    """d-BLEU, and s-BLEU where sentences can be compared."""
    scored = data.measured(DocumentScores)
    if len(scored) < len(data.system_names):
        return []
    example = next(iter(scored.values()))[0]
    pairs = [(result.by_document, result.by_sentence) for by_seed in scored.values() for result in by_seed]
    signatures = dict.fromkeys(score.signature for pair in pairs for score in pair if score is not None)
    rows = list[list[str | Text]]()
    for name, by_seed in scored.items():
        by_document = [result.by_document.value for result in by_seed]
        by_sentence = [result.by_sentence.value for result in by_seed if result.by_sentence is not None]
        rows.append(
            [
                name,
                " · ".join(map(fixed, by_document)),
                text(Span(fixed(fmean(by_document)), "strong")),
                " · ".join(fixed(result.by_sentence.value) if result.by_sentence else MISSING for result in by_seed),
                fixed(fmean(by_sentence)) if len(by_sentence) == len(by_seed) else MISSING,
                " · ".join(count(result.differing) for result in by_seed),
            ]
        )
    scores = table(
        ["system", "d-BLEU\nby seed", "d-BLEU\nmean", "s-BLEU\nby seed", "s-BLEU\nmean", "documents of\nother lengths"],
        rows,
        f"BLEU of {count(example.count)} documents",
        "d-BLEU: each document is one segment, as in all other scores of this report, whose bootstrap resamples "
        "documents. s-BLEU: its sentences are segments; where a document has another number of sentences than its "
        "reference, they cannot be compared.",
        "Documents of other lengths: those with another number of sentences than their references, by seed.",
        *(text("BLEU: ", Span(signature, "code")) for signature in signatures),
    )
    return [Section("Documents", (scores,))]


DOCUMENTS = MeasurementSpec(read=_read, after_results={"translation": _section})
