"""Answers to questions, which are spans of a passage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings
from subgraft.data.sources.squad import nearest
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec, UnlearnableError, stripped
from subgraft.data.text.fields import ANNOTATION, Field, Sides, json_cell, span_bounds, text_of

Span = tuple[int, int]


class SpanExtractionColumns(Settings):
    """question, passage: span extraction: the columns of the question and of the passage.
    answers: the column of its answers: a list of [start, end] in characters of the passage, or `text` and
    `answer_start` as in SQuAD; an empty list means that the passage has no answer.
    """

    question: Column | None = None
    passage: Column | None = None
    answers: Column | None = None


def _examples(row: LabelledRow) -> Iterator[Sides]:
    question, passage, spans = answered(row)
    row.counts["unanswerable"] += not spans
    yield (question, passage, json_cell(spans))


def answered(row: LabelledRow) -> tuple[str, str, list[Span]]:
    """A question, its passage, and its answers there; raises UnlearnableError if the passage has none of them."""
    passage = text_of(row.value("passage"), "passage", row.where)
    question, without_space = row.text("question"), stripped(passage, "passage", row.where)
    declared = _answers(row.value("answers"), row.where)
    offset = len(passage) - len(passage.lstrip())
    located = [_in_passage(answer, passage, row.counts) for answer in declared]
    spans = list(dict.fromkeys((start - offset, end - offset) for start, end in filter(None, located)))
    if declared and not spans:
        raise UnlearnableError("answer_not_found")
    return question, without_space, spans


def _answers(value: Any, where: str) -> list[tuple[str | None, int, int]]:
    """The text (if it is declared), start and end of each answer, in any of the forms."""
    if value is None:
        raise UnlearnableError("no_label")
    if isinstance(value, dict):  # of lists, as Hugging Face's datasets have it
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise UserError("the answers need two lists of equal length, `text` and `answer_start`", where=where)
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    answers = list[tuple[str | None, int, int]]()
    several = isinstance(value, list) and not all(isinstance(part, int) for part in value[:2] or [""])
    for answer in value if several or value == [] else [value] if value != "" else []:
        text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
        if isinstance(text, str) and isinstance(start, int):
            answers.append((text, start, start + len(text)))
        else:
            answers.append((None, *span_bounds(answer, "answers", where)))
    return answers


def _in_passage(answer: tuple[str | None, int, int], passage: str, counts: Counter[str]) -> Span | None:
    """The bounds of an answer without outer white space; if its text is elsewhere, of the nearest occurrence."""
    text, start, end = answer
    if text is not None and passage[max(start, 0) : max(end, 0)] != text:
        nearest_start = nearest(passage, text, start) if text.strip() else None
        if nearest_start is None:
            return None
        counts["answer_moved"] += 1
        start, end = nearest_start, nearest_start + len(text)
    if not 0 <= start < end <= len(passage) or not passage[start:end].strip():
        return None
    span_text = passage[start:end]
    return start + len(span_text) - len(span_text.lstrip()), end - len(span_text) + len(span_text.rstrip())


SPAN_EXTRACTION = LabelledTaskSpec(
    name="span-extraction",
    called="Span extraction",
    hub_tag="question-answering",
    task="spans:SpanExtraction",
    pairs=True,
    settings=SpanExtractionColumns,
    columns=("question", "passage", "answers"),
    formats=("squad",),
    fields=(Field("answers", ANNOTATION),),
    examples=_examples,
    classes=False,
    route="/answer",
    line="question, passage",
    answer="`answer` or null, its characters `start` to `end`, `score` relative to no answer",
)
