"""A number for each text, or for each pair of texts."""

from __future__ import annotations

from collections.abc import Iterator

from subgraft.config.settings_base import Settings
from subgraft.data.tasks.labelled import Column, LabelledRow, LabelledTaskSpec
from subgraft.data.text.fields import ANNOTATION, Field, Sides, json_cell


class RegressionColumns(Settings):
    """value: regression: the column of a number."""

    value: Column | None = None


def _examples(row: LabelledRow) -> Iterator[Sides]:
    texts = [row.text(role) for role in ("text", "text_pair") if row.columns[role]]
    yield (*texts, json_cell(row.number("value")))


REGRESSION = LabelledTaskSpec(
    name="regression",
    called="Regression",
    hub_tag="text-classification",
    task="sequences:Regression",
    pairs=True,
    settings=RegressionColumns,
    columns=("text", "value"),
    optional_columns=("text_pair",),
    usual_names={"value": ("value", "score")},
    fields=(Field("value", ANNOTATION),),
    examples=_examples,
    classes=False,
    heads=("bilstm",),
    line="two texts, or one for some",
    answer="`value`",
)
