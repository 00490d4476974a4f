"""Labelled examples from the rows of files: the fields and cells of each task.

A malformed row (a missing column, a number in place of a text) is an error, because the whole file may have another
layout. A well-formed row that can be neither learnt nor scored (without a label, or with an answer that its passage
does not contain) is left out and counted, by the reasons in `cleaning.RULES`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_RELEVANCE, MAX_VALUE
from subgraft.config.corpora import Languages
from subgraft.config.labelled_files import ROLES, LabelledFiles, LabelledTask
from subgraft.data.sources.labelled_rows import Row
from subgraft.data.sources.records import label_of, text_of
from subgraft.data.sources.squad import nearest
from subgraft.data.text.fields import (
    ANNOTATION,
    LABELS,
    QUERY,
    TAGS,
    Field,
    Sides,
    is_one_word,
    json_cell,
    span_bounds,
)
from subgraft.data.text.sentences import sentence_limits

# Reads the cells of a row's examples; `counts` receives noteworthy events.
Reader = Callable[[Row, "Form", Counter[str]], Iterable[Sides]]
Span = tuple[int, int]
# Python also reads 1_000 and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Form:
    """The settings of the files, and the columns of each role, which are looked up once and not for every row."""

    settings: LabelledFiles
    columns: Mapping[str, tuple[int | str, ...]]


def _form(settings: LabelledFiles) -> Form:
    return Form(settings, {role: settings.columns(role) for role in ROLES})


class UnlearnableError(Exception):
    """A row that cannot be learnt; its argument is a key of `cleaning.RULES`."""


def labelled_fields(settings: LabelledFiles, languages: Languages, choices: int) -> tuple[Field, ...]:
    """The fields of a task's examples; `choices` is the number of choices to choose from."""
    source, target = Field("source", language=languages.source), Field("target", language=languages.target)
    label = Field("label", "label")
    other_choices = (Field(f"choice-{number}", language=languages.target) for number in range(2, choices + 1))
    two = (source, target) if settings.text_pair is not None else (source,)
    fields: Mapping[LabelledTask, tuple[Field, ...]] = {
        "classification": (source, label),
        "pair-classification": (source, target, label),
        "regression": (*two, Field("value", ANNOTATION)),
        "multiple-choice": (source, target, *other_choices, Field("answer", ANNOTATION)),
        "span-extraction": (source, target, Field("answers", ANNOTATION)),
        "tagging": (source, Field(TAGS, ANNOTATION)),
        "ranking": (source, target, Field("relevance", ANNOTATION), Field(QUERY, "label")),
        "relation-classification": (source, *(Field(name, "span", of="source") for name in ("head", "tail")), label),
        "entity-typing": (source, Field("entity", "span", of="source"), Field(LABELS, ANNOTATION)),
    }
    return fields[settings.task]


def examples(
    rows: Iterable[Row], settings: LabelledFiles, cells_of_example: int, counts: Counter[str]
) -> Iterator[tuple[int, Sides]]:
    """The examples of rows, each with the number of its group; `counts` receives those left out, by reason.

    An example with another number of cells has more or fewer choices than the first one, and is left out too.
    """
    form = _form(settings)
    read_row = _READERS[settings.task]
    queries = _Queries() if settings.ranking or form.columns["query"] else None
    group, previous = -1, None
    for row in rows:
        try:
            parsed = tuple(read_row(row, form, counts))
        except UnlearnableError as reason:
            counts[str(reason)] += 1
            continue
        if any(len(cells) != cells_of_example for cells in parsed):
            counts["other_choices"] += 1
            continue
        if queries is not None:
            parsed = tuple(queries.with_name(cells, row.where) for cells in parsed)
        key = row.group or (parsed[0][3] if queries is not None else None)
        group += key is None or key != previous
        previous = key
        for cells in parsed:
            yield group, cells


class _Queries:
    """Names the queries of ranked candidates and checks that the records of each query are adjacent."""

    def __init__(self) -> None:
        self._names = set[str]()
        self._previous, self._name = "", ""

    def with_name(self, cells: Sides, where: str) -> Sides:
        query = cells[3] or cells[0]
        if query != self._previous or not self._names:
            if query in self._names:
                hint = "The records of a query must be adjacent: sort the file by query, or set `query_id`."
                raise UserError(f"the query '{query:.40}' comes again", where=where, hint=hint)
            self._names.add(query)
            self._previous, self._name = query, cells[3] or str(len(self._names))
        return (*cells[:3], self._name)


# Texts and labels.


def _value(row: Row, role: str, form: Form) -> Any:
    return row[form.columns[role][0]]


def _text(row: Row, role: str, form: Form) -> str:
    return _stripped(_value(row, role, form), role, row.where)


def _stripped(value: Any, role: str, where: str) -> str:
    text = "" if value is None else text_of(value, role, where).strip()
    if not text:
        raise UnlearnableError("no_text")
    return text


def _label(row: Row, form: Form) -> str:
    return _class(_value(row, "label", form), "the label", row.where)


def _class(value: Any, what: str, where: str) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, str):
        value = value.strip()
    elif isinstance(value, float):
        hint = "A column of decimals is a `value`, which a regression predicts; a class is a text or a whole number."
        raise UserError(f"{what} is the decimal {value}", where=where, hint=hint)
    if value is None or value == "":
        raise UnlearnableError("no_label")
    return label_of(value, what, where)


def _classification(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    yield (_text(row, "text", form), _label(row, form))


def _pair(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    yield (_text(row, "text", form), _text(row, "text_pair", form), _label(row, form))


def _regression(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    texts = [_text(row, role, form) for role in ("text", "text_pair") if form.columns[role]]
    yield (*texts, json_cell(_number(_value(row, "value", form), "value", row.where)))


def _number(value: Any, role: str, where: str) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise UnlearnableError("no_label")
    try:
        plain = not isinstance(value, bool | str) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()))
        number = float(value) if plain else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"the {role} {value!r:.40} is not a finite number", where=where, hint="Write it as in 3.5.")
    if abs(number) > MAX_VALUE:
        hint = f"Numbers are at most {MAX_VALUE:g}, whose squares a training can add up: write them in a larger unit."
        raise UserError(f"the {role} {value!r:.40} is too large", where=where, hint=hint)
    return int(number) if isinstance(value, int) else number


# Choices.


def choice_count(settings: LabelledFiles, rows: Iterator[Row]) -> int:
    """The number of choices: that of the columns, or of the list in the first row."""
    form = _form(settings)
    if len(form.columns["choices"]) > 1:
        return len(form.columns["choices"])
    row = next(rows, None)
    return 2 if row is None else len(_choices(row, form))


def _choices(row: Row, form: Form) -> Sequence[Any]:
    if len(form.columns["choices"]) > 1:
        return [row[column] for column in form.columns["choices"]]
    choices = _value(row, "choices", form)
    if not isinstance(choices, list) or len(choices) < 2:
        hint = "Name the columns of the choices: choices: [first, second]; or one column that is a list."
        raise UserError("the choices are not a list of two at least", where=row.where, hint=hint)
    return choices


def _multiple_choice(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    choices = [_stripped(choice, "choices", row.where) for choice in _choices(row, form)]
    answer = _answer(_value(row, "answer", form), choices, form.settings.first_choice, row.where)
    yield (_text(row, "text", form), *choices, json_cell(answer))


def _answer(value: Any, choices: Sequence[str], first: int, where: str) -> int:
    """The index, from 0, of the right choice, which is stated by its index, its letter or its text, unambiguously."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise UnlearnableError("no_label")
    text = str(value).strip()
    indices = set[int]()
    if not isinstance(value, bool):
        indices |= {index for index in range(len(choices)) if text == str(index + first)}
    if isinstance(value, str):
        indices |= {index for index in range(len(choices)) if text in (chr(ord("A") + index), choices[index])}
    if len(indices) == 1:
        return indices.pop()
    what = "could mean several choices" if indices else f"is none of {len(choices)} choices"
    hint = (
        f"Write the index, here {first} to {first + len(choices) - 1} (see first_choice), a letter from A, or the text."
    )
    raise UserError(f"the answer {text!r:.40} {what}", where=where, hint=hint)


# Spans: of answers, and of entities.


def _span_extraction(row: Row, form: Form, counts: Counter[str]) -> Iterator[Sides]:
    question, passage, spans = _answered(row, form, counts)
    counts["unanswerable"] += not spans
    yield (question, passage, json_cell(spans))


def _answered(row: Row, form: Form, counts: Counter[str]) -> tuple[str, str, list[Span]]:
    """A question, its passage, and its answers there; raises UnlearnableError if the passage has none of them."""
    passage = text_of(_value(row, "passage", form), "passage", row.where)
    question, stripped = _text(row, "question", form), _stripped(passage, "passage", row.where)
    declared = _answers(_value(row, "answers", form), row.where)
    offset = len(passage) - len(passage.lstrip())
    located = [_in_passage(answer, passage, counts) for answer in declared]
    spans = list(dict.fromkeys((start - offset, end - offset) for start, end in filter(None, located)))
    if declared and not spans:
        raise UnlearnableError("answer_not_found")
    return question, stripped, spans


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


def _text_with_spans(row: Row, form: Form, *roles: str) -> tuple[str, list[Span]]:
    """The text, and spans of it, which do not overlap."""
    text = text_of(_value(row, "text", form), "text", row.where)
    offset = len(text) - len(text.lstrip())
    stripped, spans = _stripped(text, "text", row.where), list[Span]()
    for role in roles:
        columns = form.columns[role]
        values = [row[column] for column in columns]
        start, end = span_bounds(values if len(values) == 2 else values[0], role, row.where)
        if not 0 <= start - offset < end - offset <= len(stripped):
            raise UnlearnableError("span_outside")
        spans.append((start - offset, end - offset))
    if any(end > start for (_, end), (start, _) in pairwise(sorted(spans))):
        raise UnlearnableError("spans_overlap")
    return stripped, spans


def _relation(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    text, spans = _text_with_spans(row, form, "head", "tail")
    yield (text, *(f"{start}\t{end}" for start, end in spans), _label(row, form))


def _entity(row: Row, form: Form, _: Counter[str]) -> Iterator[Sides]:
    text, ((start, end),) = _text_with_spans(row, form, "entity")
    value = _value(row, "labels", form)
    parts = value.split(form.settings.separator) if isinstance(value, str) else value
    if parts is not None and not isinstance(parts, list):
        raise UserError("the labels are neither a list nor text", where=row.where)
    non_empty = [part for part in parts or () if not (isinstance(part, str) and not part.strip())]
    labels = dict.fromkeys(_class(part, "a label", row.where) for part in non_empty)
    if not labels:
        raise UnlearnableError("no_label")
    yield (text, f"{start}\t{end}", json_cell(list(labels)))


# Tags.


def _tagging(row: Row, form: Form, counts: Counter[str]) -> Iterator[Sides]:
    words, tags = _value(row, "word", form), _value(row, "tag", form)
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        names = (form.columns["word"][0], form.columns["tag"][0])
        hint = f'In JSON lines, as in {{"{names[0]}": ["In", "Oslo"], "{names[1]}": ["O", "B-LOC"]}}.'
        raise UserError("no lists of as many words as tags", where=row.where, hint=hint)
    if not words:
        raise UnlearnableError("no_text")
    for word in words:
        if not is_one_word(text_of(word, "word", row.where)):
            raise UnlearnableError("word_with_space")
    labels = [_class(tag, "a tag", row.where) for tag in tags]
    counts["ill_nested_tags"] += ill_nested(labels)
    yield (" ".join(words), json_cell(labels))


def ill_nested(tags: Iterable[str]) -> int:
    """The number of tags that continue an entity which has not begun: I-X after O or after another type."""
    count, inside = 0, ""
    for tag in tags:
        mark, _, kind = tag.partition("-")
        count += bool(kind) and mark in {"I", "M", "E", "L"} and inside != kind
        inside = kind if mark in {"B", "I", "M"} else ""
    return count


# Candidates of queries.


def _ranking(row: Row, form: Form, counts: Counter[str]) -> Iterator[Sides]:
    if form.settings.ranking:
        yield from _sentences_ranked(row, form, counts)
        return
    relevance = _number(_value(row, "relevance", form), "relevance", row.where)
    if relevance != int(relevance) or relevance < 0:
        raise UserError(f"the relevance {relevance} is not a whole number from 0", where=row.where)
    if relevance > MAX_RELEVANCE:
        hint = f"Relevances are grades, at most {MAX_RELEVANCE}: a document's gain is 2 to the power of its grade."
        raise UserError(f"the relevance {relevance:g} is too large", where=row.where, hint=hint)
    query, candidate = _text(row, "query", form), _text(row, "candidate", form)
    name = (
        _class(row[form.settings.query_id], "the query's name", row.where) if form.settings.query_id is not None else ""
    )
    yield (query, candidate, json_cell(int(relevance)), name)


def _sentences_ranked(row: Row, form: Form, counts: Counter[str]) -> Iterator[Sides]:
    """The sentences of a passage; those that contain an answer of the question are relevant."""
    question, passage, spans = _answered(row, form, counts)
    bounds = [(first, last) for first, last in pairwise(sentence_limits(passage)) if passage[first:last].strip()]
    relevant = [any(first <= start and end <= last for start, end in spans) for first, last in bounds]
    if not any(relevant):
        raise UnlearnableError("answer_not_in_sentence")
    if len(bounds) < 2:
        raise UnlearnableError("one_candidate")
    for (first, last), is_relevant in zip(bounds, relevant, strict=True):
        yield (question, passage[first:last].strip(), json_cell(int(is_relevant)), str(row["number"]))


_READERS: Mapping[LabelledTask, Reader] = {
    "classification": _classification,
    "pair-classification": _pair,
    "regression": _regression,
    "multiple-choice": _multiple_choice,
    "span-extraction": _span_extraction,
    "tagging": _tagging,
    "ranking": _ranking,
    "relation-classification": _relation,
    "entity-typing": _entity,
}
