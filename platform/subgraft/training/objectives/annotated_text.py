"""Texts of a corpus with the annotations of each line: named spans, or triples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.segments import Text
from subgraft.training.objectives.objective import Request

AnnotatedKind = Literal["spans", "triples"]


def annotated(
    request: Request, kind: AnnotatedKind, chosen: str | None
) -> Iterator[tuple[Sequence[str], list[list[Any]]]]:
    """Each text of a corpus with the spans or triples of each of its lines.

    chosen: the field that has them; by default the only one of the kind. Raises UserError for a text without one.
    """
    for _, lines in request.texts():
        assert isinstance(lines, Text)  # a corpus's
        yield lines, annotations_of(request.corpus, lines, kind, chosen)


def annotations_of(corpus: Corpus, lines: Text, kind: AnnotatedKind, chosen: str | None) -> list[list[Any]]:
    """The spans or triples of each line of a text of a corpus. Raises UserError for a text without such a field."""
    split, _, name = lines.path.name.partition(".")
    return list(values_of_lines(corpus, split, _field(corpus, name, kind, chosen), lines))


def values_of_lines(corpus: Corpus, split: str, field: str, lines: Sequence[str]) -> Iterator[Any]:
    """The value of an annotation field for each line of a text, which may be chosen lines of its file."""
    values = corpus.annotations(split, field)
    chosen = lines.selected if isinstance(lines, Text) else None
    if chosen is None:
        return values
    by_line = list(values)
    return (by_line[int(place)] for place in chosen)


def _field(corpus: Corpus, text: str, kind: AnnotatedKind, chosen: str | None) -> str:
    fields = corpus.fields_of(text, kind)
    if chosen in fields or (chosen is None and len(fields) == 1):
        return chosen or fields[0]
    there = ", ".join(fields) or "none"
    hint = f"Records have them in a field: {{kind: {kind}, of: {text}}}."
    if chosen is None and fields:
        hint = f"Write {kind}: {fields[0]} in the objective."
    what = f"one field of {kind} of '{text}' is needed; it has: {there}"
    raise UserError(what, where=str(corpus.directory), hint=hint)
