"""All tasks of understanding by their names in `config.tasks`."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.training.understanding.candidates import MultipleChoice, Ranking
from subgraft.training.understanding.sequences import (
    Classification,
    EntityTyping,
    PairClassification,
    Regression,
    RelationClassification,
)
from subgraft.training.understanding.spans import SpanExtraction
from subgraft.training.understanding.tags import Tagging
from subgraft.training.understanding.task import LabelledTask

LABELLED_TASKS: Mapping[str, type[LabelledTask]] = {
    "classification": Classification,
    "pair-classification": PairClassification,
    "regression": Regression,
    "multiple-choice": MultipleChoice,
    "span-extraction": SpanExtraction,
    "tagging": Tagging,
    "ranking": Ranking,
    "relation-classification": RelationClassification,
    "entity-typing": EntityTyping,
}
