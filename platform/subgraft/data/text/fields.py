"""The named fields of a segment (texts in a language, labels, spans, tensors), and its place in a document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field as SettingsField

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages

# The kinds of fields that records can have, and how a field may be called.
FieldKind = Literal["text", "label", "span", "spans", "triples", "tensor"]
FieldName = Annotated[str, SettingsField(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
# A segment: a cell for each field of the corpus, in order, followed by its place if it belongs to a document.
Sides = tuple[str, ...]
# The kind of the field with a conversation's turns, and its name.
CONVERSATION: Literal["conversation"] = "conversation"
# The kind of fields with any value as JSON: a number, tags, the spans of answers.
ANNOTATION: Literal["annotation"] = "annotation"
Kind: TypeAlias = FieldKind | Literal["conversation", "annotation"]
# The label field with the query of a ranked candidate: it identifies a list of candidates, and is not a class.
QUERY = "query-id"
# Annotations that are lists of classes: a tag for each word, and the types of an entity.
TAGS, LABELS = "tags", "labels"
# Labels and names of documents are stored one per line or cell, so they must not contain these characters.
_BREAKS = frozenset("\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


@dataclass(frozen=True)
class Field:
    """A field of every segment.

    Attributes:
        name: The name.
        kind: A text; a label of the segment; a span of a text, [start, end) in characters; named spans or
            triples, as JSON; a tensor; the turns of a conversation, as JSON; or an annotation, any value as JSON.
        language: The language of a text.
        of: The text that contains a span or spans, or states triples.
    """

    name: str
    kind: Kind = "text"
    language: str | None = None
    of: str | None = None

    @property
    def has_classes(self) -> bool:
        """Whether its values are of a closed set: the labels, tags or types of training text."""
        return self.name in (TAGS, LABELS) if self.kind == ANNOTATION else self.kind == "label" and self.name != QUERY

    @property
    def is_input(self) -> bool:
        """Whether a model reads it (a text or a span) or it identifies the input; if not, it is an annotation."""
        return self.kind in ("text", "span") or self.name == QUERY

    @property
    def fixes_text(self) -> bool:
        """Whether its values are only valid while the characters of its text do not change."""
        return self.kind in ("span", "spans", CONVERSATION, ANNOTATION)

    def classes(self, cell: str) -> tuple[str, ...]:
        """The classes in a cell of such a field."""
        return tuple(json.loads(cell)) if self.kind == ANNOTATION else (cell,)


def cell_of(columns: Mapping[Any, Any], column: int | str, where: str) -> Any:
    """The value in a column of a line. Raises UserError where there is none."""
    if column not in columns:
        what = f"no field '{column}'" if isinstance(column, str) else f"no column {column}"
        has = ", ".join(map(str, columns)) if isinstance(column, str) else f"{len(columns)} columns"
        raise UserError(what, where=where, hint=f"The line has: {has or 'none':.500}.")
    return columns[column]


def label_of(value: object, what: str, where: str) -> str:
    """The text of a label. Raises UserError for other values, and for text that cannot be stored as a single line."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"{what} is neither a text nor a whole number", where=where)
    text = str(value)
    if not text.strip() or text != text.strip() or not _BREAKS.isdisjoint(text):
        what = f"{what} is empty, begins or ends with a space, or contains a tab or a line break"
        raise UserError(what, where=where, hint=f"Found: {text[:40]!r}.")
    return text


def text_of(value: object, name: int | str, where: str) -> str:
    """The text of a field. Raises UserError for other values; a conversation gets its own message."""
    if isinstance(value, str):
        return value
    turns = value if isinstance(value, list) else [value]
    if any(isinstance(turn, dict) and "role" in turn for turn in turns):
        what = f"the field '{name}' contains a conversation, not a text"
        hint = "Write `task: chat` and the corpus as `conversations: {folder: …}`, or give texts in fields."
        raise UserError(what, where=where, hint=hint)
    raise UserError(f"the field '{name}' contains no text", where=where)


def span_bounds(value: Any, name: str, where: str) -> tuple[int, int]:
    """The start and end of a span: two whole numbers in a list, or start:end. Raises UserError for anything else."""
    parts = value.split(":") if isinstance(value, str) else value
    try:
        if not isinstance(parts, list | tuple) or any(isinstance(part, bool | float) for part in parts):
            raise ValueError
        if any(isinstance(part, str) and "_" in part for part in parts):  # Python reads 1_0 as 10
            raise ValueError
        start, end = (int(part) for part in parts)
    except (TypeError, ValueError):
        hint = "Write [start, end] in JSON, or start:end in columns, in characters; the end is exclusive."
        raise UserError(f"the span '{name}' is not a pair of whole numbers", where=where, hint=hint) from None
    return start, end


def is_one_word(word: str) -> bool:
    """Whether a tagged word can be stored with single spaces between words; other spaces may be inside it."""
    return word == word.strip() and len(word.splitlines()) == 1 and not {" ", "\t"} & {*word}


def json_cell(value: Any) -> str:
    """A value as compact JSON in one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Characters that some readers take for the end of a line; JSON escapes the others itself.
    for character in "\x85\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def pair_fields(languages: Languages, *, two: bool) -> tuple[Field, ...]:
    """The fields `source` and `target`, or `source` alone."""
    source, target = Field("source", language=languages.source), Field("target", language=languages.target)
    return (source, target) if two else (source,)


def text_fields(codes: Iterable[str]) -> list[Field]:
    """A text field for each language, named by its code, in the order of codes."""
    return [Field(code, language=code) for code in sorted(codes)]


def texts(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The text fields."""
    return tuple(field for field in fields if field.kind == "text")


def text_places(fields: Sequence[Field]) -> tuple[int, ...]:
    """The indices of text fields."""
    return tuple(index for index, field in enumerate(fields) if field.kind == "text")


def select_fields(languages: Languages | None, declared: Sequence[Field], where: str) -> dict[str, Field]:
    """The fields that a task uses, by declared name; all of them if `languages` is None.

    For a pair of languages, their texts become `source` and `target`. For one language, its text becomes `source` (and
    a second text in that language `target`). Other texts, and spans of them, are excluded.

    Raises:
        UserError: There is no text in a language; the error refers to `where`.
    """
    if languages is None:
        return {field.name: field for field in declared}
    renamed = _paired(languages, texts(declared), where)
    selected: dict[str, Field] = {}
    for field in declared:
        if field.kind == "text" and field.name in renamed:
            selected[field.name] = replace(field, name=renamed[field.name])
        elif field.kind in ("span", "spans", "triples") and field.of in renamed:
            selected[field.name] = replace(field, of=renamed[field.of])
        elif field.kind in ("label", "tensor", "conversation", "annotation"):
            selected[field.name] = field
    # The source comes first, as everywhere.
    return dict(sorted(selected.items(), key=lambda item: item[1].name != "source"))


def _paired(languages: Languages, declared: Sequence[Field], where: str) -> dict[str, str]:
    by_language: dict[str | None, list[str]] = {}
    for field in declared:
        by_language.setdefault(field.language, []).append(field.name)
    for language in (languages.source, languages.target):
        if language not in by_language:
            hint = f"It has: {', '.join(str(code) for code in by_language)}."
            raise UserError(f"no text in the language '{language}'", where=where, hint=hint)
    if languages.source != languages.target:
        return {by_language[languages.source][0]: "source", by_language[languages.target][0]: "target"}
    return dict(zip(by_language[languages.source], ("source", "target"), strict=False))


class Place(NamedTuple):
    """The document of a segment and its position there; positions of neighbours differ by one.

    It follows a segment's fields as one more cell, "document<TAB>position", also in a stored corpus.
    """

    document: str
    position: int

    def __str__(self) -> str:
        return f"{self.document}\t{self.position}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """The inverse of `str`."""
        document, _, position = text.rpartition("\t")
        return cls(document, int(position))


class Run(NamedTuple):
    """Segments [start, stop) of a split that are neighbours in one document, without gaps."""

    document: str
    start: int
    stop: int


def runs(places: Iterable[str]) -> Iterator[Run]:
    """The documents of a split as runs of neighbours; a document with gaps is several runs of the same name."""
    start, previous = 0, None
    index = -1
    for index, text in enumerate(places):
        place = Place.parse(text)
        if previous is not None and not _follows(place, previous):
            yield Run(previous.document, start, index)
            start = index
        previous = place
    if previous is not None:
        yield Run(previous.document, start, index + 1)


def count_documents(segments: Iterable[Sides], counts: Counter[str]) -> Iterator[Sides]:
    """Yield the segments, whose last cell is their place, and count "documents" and "broken" ones, which have a gap."""
    previous, broken = None, False
    for cells in segments:
        place = Place.parse(cells[-1])
        # A decreasing position marks the beginning of another copy of the document.
        if previous is None or place.document != previous.document or place.position <= previous.position:
            counts["documents"] += 1
            broken = False
        elif not broken and not _follows(place, previous):
            counts["broken"] += 1
            broken = True
        previous = place
        yield cells


def whole_documents(sizes: Sequence[int], limit: int) -> list[bool]:
    """Select evenly spaced documents with at most `limit` segments together; returns whether each is selected."""
    total, taken, seen = sum(sizes), 0, 0
    selected: list[bool] = []
    for size in sizes:
        seen += size
        fits = (taken + size) * total <= limit * seen
        taken += size * fits
        selected.append(fits)
    return selected


def _follows(place: Place, previous: Place) -> bool:
    return place == (previous.document, previous.position + 1)
