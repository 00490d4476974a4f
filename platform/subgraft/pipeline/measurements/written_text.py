"""Whether a model that continues text writes the tokens that its vocabulary has for that text, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from subgraft.evaluation.reporting.document import Section
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import table
from subgraft.pipeline.artifacts import read_evaluation
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Sources


@dataclass(frozen=True)
class WrittenText:
    """The continuations by a system under one seed.

    Attributes:
        tokens: That it wrote, without ends.
        needed: Of the same text, if the vocabulary segments it: fewer where a model spells what is one token.
        characters: Of the text.
        characters_per_second: None if speed was not measured.
    """

    tokens: int
    needed: int
    characters: int
    characters_per_second: float | None


def _read(sources: Sources) -> WrittenText | None:
    evaluation = read_evaluation(sources.evaluation)
    if (written := evaluation.get("written")) is None:
        return None
    outputs, speed = written["outputs"], evaluation["speed"]
    characters = written["characters"]
    pace = speed["median"] * characters / outputs if speed and outputs else None
    return WrittenText(written["tokens"], written["needed"], characters, pace)


def _section(data: ReportData) -> list[Section]:
    """Means over seeds."""
    rows = []
    for name, written in data.measured(WrittenText).items():
        tokens, needed = (fmean(getattr(each, field) for each in written) for field in ("tokens", "needed"))
        paces = [each.characters_per_second for each in written if each.characters_per_second is not None]
        rows.append(
            [
                name,
                count(round(tokens)),
                fixed(tokens / needed, 3) if needed else MISSING,
                fixed(fmean(each.characters for each in written) / tokens) if tokens else MISSING,
                fixed(fmean(paces), 1) if paces else MISSING,
            ]
        )
    if not rows:
        return []
    headings = [
        "system",
        "tokens\nwritten",
        "written for\none needed",
        "characters\nper token",
        "characters\nper second",
    ]
    notes = (
        f"Continuations of {data.prompts}. Written for one needed: 1 where a model writes texts in the tokens that its "
        "vocabulary has for them; more where it spells what is one token, as after too little training with new ones.",
    )
    return [Section("Written text", (table(headings, rows, "Tokens that the models write", *notes),))]


WRITTEN_TEXT = MeasurementSpec(read=_read, after_results={"continuation": _section})
