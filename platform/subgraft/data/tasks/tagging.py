"""A tag of each word of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field as SettingsField

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec, UnlearnableError, class_of
from subgraft.data.text.fields import ANNOTATION, TAGS, Field, Sides, is_one_word, json_cell, text_of


class TaggingColumns(Settings):
    """word, tag: tagging: columns of conll (by default the first and the last one), or of lists in JSON lines.
    comments: the first characters of lines that conll skips, such as `#`.
    """

    word: Column | None = None
    tag: Column | None = None
    comments: Annotated[str, SettingsField(min_length=1)] | None = None


def _examples(row: LabelledRow) -> Iterator[Sides]:
    words, tags = row.value("word"), row.value("tag")
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        names = (row.columns["word"][0], row.columns["tag"][0])
        hint = f'In JSON lines, as in {{"{names[0]}": ["In", "Oslo"], "{names[1]}": ["O", "B-LOC"]}}.'
        raise UserError("no lists of as many words as tags", where=row.where, hint=hint)
    if not words:
        raise UnlearnableError("no_text")
    for word in words:
        if not is_one_word(text_of(word, "word", row.where)):
            raise UnlearnableError("word_with_space")
    labels = [class_of(tag, "a tag", row.where) for tag in tags]
    row.counts["ill_nested_tags"] += ill_nested(labels)
    yield (" ".join(words), json_cell(labels))


def ill_nested(tags: Iterable[str]) -> int:
    """The number of tags that continue an entity which has not begun: I-X after O or after another type."""
    count, inside = 0, ""
    for tag in tags:
        mark, _, kind = tag.partition("-")
        count += bool(kind) and mark in {"I", "M", "E", "L"} and inside != kind
        inside = kind if mark in {"B", "I", "M"} else ""
    return count


TAGGING = LabelledTaskSpec(
    name="tagging",
    called="Tagging",
    hub_tag="token-classification",
    task="tags:Tagging",
    settings=TaggingColumns,
    columns=("word", "tag"),
    usual_names={"word": ("words",), "tag": ("tags",)},
    formats=("conll",),
    endings={"conll": "conll", "txt": "conll", "tsv": "conll", "jsonl": "jsonl", "parquet": "parquet"},
    fields=(Field(TAGS, ANNOTATION),),
    examples=_examples,
    heads=("bilstm",),
    route="/tag",
    line="words",
    answer="`tags`, one for each of `words`",
)
