"""The choice that fits a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import model_validator

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec, Row, UnlearnableError, stripped
from subgraft.data.text.fields import ANNOTATION, Field, Sides, json_cell, pair_fields


class MultipleChoiceColumns(Settings):
    """choices: multiple choice: the columns of the choices, or one column of JSON lines with a list of them.
    answer: the column of the right choice: its index, its letter from A, or its text.
    first_choice: the index of the first choice.
    """

    choices: Column | tuple[Column, ...] | None = None
    answer: Column | None = None
    first_choice: Literal[0, 1] = 0

    @model_validator(mode="after")
    def _different_choices(self) -> MultipleChoiceColumns:
        if isinstance(self.choices, tuple) and len({*self.choices}) < max(len(self.choices), 2):
            raise ValueError("choices needs at least two different columns, or one that is a list")
        return self


def _texts(settings: Any, languages: Languages, rows: Iterator[Row]) -> tuple[Field, ...]:
    """The text and its choices, as many as there are columns, or in the list of the first row."""
    columns = settings.columns("choices")
    row = next(rows, None) if len(columns) == 1 else None
    count = len(columns) if len(columns) > 1 else 2 if row is None else len(_choices(row, columns))
    others = (Field(f"choice-{number}", language=languages.target) for number in range(2, count + 1))
    return (*pair_fields(languages, two=True), *others)


def _choices(row: Row, columns: Sequence[int | str]) -> Sequence[Any]:
    if len(columns) > 1:
        return [row[column] for column in columns]
    choices = row[columns[0]]
    if not isinstance(choices, list) or len(choices) < 2:
        hint = "Name the columns of the choices: choices: [first, second]; or one column that is a list."
        raise UserError("the choices are not a list of two at least", where=row.where, hint=hint)
    return choices


def _examples(row: LabelledRow) -> Iterator[Sides]:
    choices = [stripped(choice, "choices", row.where) for choice in _choices(row.row, row.columns["choices"])]
    answer = _answer(row.value("answer"), choices, row.settings.first_choice, row.where)
    yield (row.text("text"), *choices, json_cell(answer))


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


MULTIPLE_CHOICE = LabelledTaskSpec(
    name="multiple-choice",
    called="Multiple choice",
    hub_tag="multiple-choice",
    task="candidates:MultipleChoice",
    pairs=True,
    settings=MultipleChoiceColumns,
    columns=("text", "choices", "answer"),
    texts=_texts,
    fields=(Field("answer", ANNOTATION),),
    examples=_examples,
    route="/rank",
    line="text, choices",
    answer="the text of the `choice` (from 0), `probabilities`",
)
