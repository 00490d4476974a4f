"""Tasks on marked entities of a text: the relation of two, and all types of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field as SettingsField

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings
from subgraft.data.tasks.classification import LABEL
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec, UnlearnableError, class_of
from subgraft.data.text.fields import ANNOTATION, LABELS, Field, Sides, json_cell

# Tokens around the head and the tail of a relation, and around an entity to be typed (Zhang et al. 2019, section 3.5).
HEAD_TOKEN, TAIL_TOKEN, ENTITY_TOKEN = ENTITY_TOKENS = ("[HD]", "[TL]", "[ENT]")


class EntityColumns(Settings):
    """head, tail, entity: relations and entity typing: the column of a span of the text, `start:end` or [start, end] in
    characters, or two columns.
    labels: entity typing: the column of all types: a list, or text with a `separator` between them.
    separator: the text between labels.
    """

    head: Column | tuple[Column, Column] | None = None
    tail: Column | tuple[Column, Column] | None = None
    entity: Column | tuple[Column, Column] | None = None
    labels: Column | None = None
    separator: Annotated[str, SettingsField(min_length=1)] = ","


def _relation(row: LabelledRow) -> Iterator[Sides]:
    text, spans = row.text_with_spans("head", "tail")
    yield (text, *spans, row.label())


def _types(row: LabelledRow) -> Iterator[Sides]:
    text, spans = row.text_with_spans("entity")
    value = row.value("labels")
    parts = value.split(row.settings.separator) if isinstance(value, str) else value
    if parts is not None and not isinstance(parts, list):
        raise UserError("the labels are neither a list nor text", where=row.where)
    non_empty = [part for part in parts or () if not (isinstance(part, str) and not part.strip())]
    labels = dict.fromkeys(class_of(part, "a label", row.where) for part in non_empty)
    if not labels:
        raise UnlearnableError("no_label")
    yield (text, *spans, json_cell(list(labels)))


RELATION_CLASSIFICATION = LabelledTaskSpec(
    name="relation-classification",
    called="Relation classification",
    hub_tag="text-classification",
    task="sequences:RelationClassification",
    settings=EntityColumns,
    columns=("text", "head", "tail", "label"),
    fields=(Field("head", "span", of="source"), Field("tail", "span", of="source"), LABEL),
    examples=_relation,
    heads=("bilstm",),
    marks=(HEAD_TOKEN, TAIL_TOKEN),
    answer="`label`, `probabilities`",
)
ENTITY_TYPING = LabelledTaskSpec(
    name="entity-typing",
    called="Entity typing",
    hub_tag="text-classification",
    task="sequences:EntityTyping",
    settings=EntityColumns,
    columns=("text", "entity", "labels"),
    fields=(Field("entity", "span", of="source"), Field(LABELS, ANNOTATION)),
    examples=_types,
    heads=("bilstm",),
    marks=(ENTITY_TOKEN,),
    answer="`labels`, `probabilities`",
)
