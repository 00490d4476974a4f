"""All tasks, by name.

To add one: an entry in `text_tasks.py`, or a module like `tagging.py` with a class in `training.understanding`; and its
line in ENTRIES.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from subgraft.data.tasks.classification import CLASSIFICATION, PAIR_CLASSIFICATION
from subgraft.data.tasks.entities import ENTITY_TYPING, RELATION_CLASSIFICATION
from subgraft.data.tasks.labelled import LabelledTaskSpec
from subgraft.data.tasks.multiple_choice import MULTIPLE_CHOICE
from subgraft.data.tasks.question_generation import QUESTION_GENERATION
from subgraft.data.tasks.ranking import RANKING
from subgraft.data.tasks.regression import REGRESSION
from subgraft.data.tasks.span_extraction import SPAN_EXTRACTION
from subgraft.data.tasks.tagging import TAGGING
from subgraft.data.tasks.task import TaskSpec
from subgraft.data.tasks.text_tasks import (
    CHAT,
    CLASS_CONDITIONAL,
    CONTINUATION,
    FEATURE_CONDITIONAL,
    TEXT_CONDITIONAL,
    TEXT_TO_TEXT,
    TRANSLATION,
)

# In the order of documents and messages.
ENTRIES: tuple[TaskSpec, ...] = (
    TRANSLATION,
    QUESTION_GENERATION,
    TEXT_TO_TEXT,
    CONTINUATION,
    CLASS_CONDITIONAL,
    TEXT_CONDITIONAL,
    FEATURE_CONDITIONAL,
    CHAT,
    CLASSIFICATION,
    PAIR_CLASSIFICATION,
    REGRESSION,
    MULTIPLE_CHOICE,
    SPAN_EXTRACTION,
    TAGGING,
    RANKING,
    RELATION_CLASSIFICATION,
    ENTITY_TYPING,
)
TASKS: Mapping[str, TaskSpec] = {task.name: task for task in ENTRIES}
LABELLED_TASKS: Mapping[str, LabelledTaskSpec] = {
    task.name: task for task in ENTRIES if isinstance(task, LabelledTaskSpec)
}

if TYPE_CHECKING:
    TaskName: TypeAlias = str
else:  # settings and their JSON schema accept exactly the names of the table
    TaskName = Literal[tuple(TASKS)]


def tasks_with(fact: str) -> list[TaskName]:
    """The names of the tasks for which this property is set, in the order of the table."""
    return [name for name, task in TASKS.items() if getattr(task, fact, None)]
