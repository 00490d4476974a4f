"""The class of a text, or of a pair of texts."""

from __future__ import annotations

from collections.abc import Iterator

from subgraft.data.tasks.labelled import LabelledRow, LabelledTaskSpec
from subgraft.data.text.fields import Field, Sides

LABEL = Field("label", "label")


def _of_text(row: LabelledRow) -> Iterator[Sides]:
    yield (row.text("text"), row.label())


def _of_pair(row: LabelledRow) -> Iterator[Sides]:
    yield (row.text("text"), row.text("text_pair"), row.label())


CLASSIFICATION = LabelledTaskSpec(
    name="classification",
    called="Classification",
    hub_tag="text-classification",
    task="sequences:Classification",
    columns=("text", "label"),
    fields=(LABEL,),
    examples=_of_text,
    zero_shot=True,
    heads=("bilstm",),
    line="text",
    answer="`label`, `probabilities`",
)
PAIR_CLASSIFICATION = LabelledTaskSpec(
    name="pair-classification",
    called="Classification of pairs",
    hub_tag="text-classification",
    task="sequences:PairClassification",
    pairs=True,
    columns=("text", "text_pair", "label"),
    fields=(LABEL,),
    examples=_of_pair,
    zero_shot=True,
    heads=("san", "bilstm"),
    line="two texts",
    answer="`label`, `probabilities`",
)
