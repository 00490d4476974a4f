"""Texts of a corpus with the annotations of each line: named spans, or triples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.segments import Text
from subgraft.training.objectives.compute.interface import ObjectiveInputs

AnnotatedKind = Literal["spans", "triples"]


def annotated_texts(
    request: ObjectiveInputs, kind: AnnotatedKind, field_name: str | None
) -> Iterator[tuple[Sequence[str], list[list[Any]]]]:
    """Each text of a corpus with the spans or triples of each of its lines.

    field_name: the annotation field; by default the only one of this kind. Raises UserError for a text without one.
    """
    for _, lines in request.texts():
        assert isinstance(lines, Text)  # a corpus's
        yield lines, annotations_of(request.corpus, lines, kind, field_name)


def annotations_of(corpus: Corpus, lines: Text, kind: AnnotatedKind, field_name: str | None) -> list[list[Any]]:
    """The spans or triples of each line of a text of a corpus. Raises UserError for a text without such a field."""
    split, _, name = lines.path.name.partition(".")
    fields = corpus.fields_of(name, kind)
    if field_name not in fields and (field_name is not None or len(fields) != 1):
        available = ", ".join(fields) or "none"
        hint = f"Records have them in a field: {{kind: {kind}, of: {name}}}."
        if field_name is None and fields:
            hint = f"Write {kind}: {fields[0]} in the objective."
        message = f"one field of {kind} of '{name}' is needed; it has: {available}"
        raise UserError(message, where=str(corpus.directory), hint=hint)
    return list(values_of_lines(corpus, split, field_name or fields[0], lines))


def values_of_lines(corpus: Corpus, split: str, field: str, lines: Sequence[str]) -> Iterator[Any]:
    """The value of an annotation field for each line of a text, which may be a selection of the lines of its file."""
    values = corpus.annotations(split, field)
    selected = lines.selected if isinstance(lines, Text) else None
    if selected is None:
        return values
    all_values = list(values)
    return (all_values[int(line)] for line in selected)
