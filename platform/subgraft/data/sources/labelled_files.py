"""Settings of labelled examples in files: which columns they are in decides which task they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

from pydantic import Field, create_model, model_validator

from subgraft.config.settings_base import Count, Seed
from subgraft.data.tasks.classification import CLASSIFICATION, PAIR_CLASSIFICATION
from subgraft.data.tasks.labelled import LabelledFormat, LabelledTaskSpec, SharedColumns
from subgraft.data.tasks.registry import LABELLED_TASKS

# The settings of the files of all tasks; fields are in the reverse order of these classes.
_GROUPS = dict.fromkeys(task.settings for task in LABELLED_TASKS.values() if task.settings is not None)
_AllColumns: Any = create_model("AllColumns", __base__=(*reversed(_GROUPS), SharedColumns))
# The names of all settings that are columns, with the number of tasks that have each.
_TASKS_WITH = Counter(chain.from_iterable((*task.columns, *task.optional_columns) for task in LABELLED_TASKS.values()))
ROLES = tuple(name for name in _AllColumns.model_fields if name in _TASKS_WITH)
# The columns that occur in one task only, by which the task is recognised.
_TASK_OF_COLUMN = {
    column: task
    for task in LABELLED_TASKS.values()
    for column in (*task.columns, *task.optional_columns)
    if _TASKS_WITH[column] == 1
}
# The file endings of each format.
_ENDINGS: Mapping[LabelledFormat, tuple[str, ...]] = {
    "csv": ("csv",),
    "tsv": ("tsv", "txt"),
    "jsonl": ("jsonl",),
    "conll": ("conll", "txt", "tsv"),
    "squad": ("json",),
    "folders": (),
}


class LabelledFiles(_AllColumns, SharedColumns):  # type: ignore[misc]  # of groups that the table names
    """Labelled examples in files. The columns that are named decide the task; by default texts with a `label`.

    A column is a field of JSON lines or of the header by name, or a column from 1 of a file without a header.

    held_out: the number of training examples moved to the split, or a few more, because queries and SQuAD's articles
    stay whole.
    seed: draws the held-out examples; without it, they are evenly spaced.
    """

    held_out: dict[Literal["dev", "test"], Count] = Field(default_factory=dict)
    seed: Seed | None = None

    @property
    def task(self) -> str:
        """The name of the task that the examples are for."""
        return self.spec.name

    @property
    def spec(self) -> LabelledTaskSpec:
        """The task that the examples are for."""
        if of_format := self._of_format:
            chosen = (task for task in of_format if task.chosen_by and getattr(self, task.chosen_by))
            return next(chosen, of_format[0])
        by_column = next((_TASK_OF_COLUMN[role] for role in self._named_roles if role in _TASK_OF_COLUMN), None)
        return by_column or (PAIR_CLASSIFICATION if self.text_pair is not None else CLASSIFICATION)

    @property
    def _of_format(self) -> list[LabelledTaskSpec]:
        """The tasks that files of this format are for; the first one names the columns of the format."""
        return [task for task in LABELLED_TASKS.values() if self.format in task.formats]

    def columns(self, role: str) -> tuple[int | str, ...]:
        """The columns of a role, such as "text"; none if it is optional and not named."""
        column = getattr(self, role)
        if column is None:
            task, *_ = *self._of_format, self.spec
            return (role,) if role in task.columns else ()
        return column if isinstance(column, tuple) else (column,)

    @property
    def numbered(self) -> bool:
        """Whether columns are numbers, and files have no header."""
        return any(isinstance(column, int) for role in self._named_roles for column in self.columns(role))

    def format_of(self, name: str) -> LabelledFormat | None:
        """The format of a file; None if neither the settings nor the ending decide it."""
        return self.format or self.spec.endings.get(name.removesuffix(".gz").rpartition(".")[2])

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of the files of a folder."""
        return tuple(self.spec.endings) if self.format is None else _ENDINGS[self.format]

    @property
    def _named_roles(self) -> list[str]:
        return [role for role in ROLES if getattr(self, role) is not None]

    @model_validator(mode="after")
    def _consistent(self) -> LabelledFiles:
        if (self.folder is None) == (self.files is None):
            raise ValueError("give exactly one of folder, files")
        self._require_columns()
        if self.format == "folders" and self.folder is None:
            raise ValueError("format folders needs `folder`")
        for task in LABELLED_TASKS.values():
            if task.chosen_by and getattr(self, task.chosen_by) and self.format not in task.formats:
                *columns, last = task.columns
                raise ValueError(
                    f"{task.chosen_by} applies to format {' and '.join(task.formats)} only: "
                    f"for other files name {', '.join(columns)} and {last}"
                )
        if self.files is not None:
            if overlap := sorted(self.files.keys() & self.held_out.keys()):
                raise ValueError(f"{overlap[0]} has a file, so it cannot be held out of train")
            if "train" not in self.files and self.held_out:
                raise ValueError("held_out needs a training file, which is missing")
        return self

    def _require_columns(self) -> None:
        if self.format in ("squad", "folders") and self._named_roles:
            raise ValueError(f"format {self.format} has no columns: leave out {', '.join(self._named_roles)}")
        task = self.spec
        if foreign := [role for role in self._named_roles if role not in task.columns + task.optional_columns]:
            required = ", ".join(task.columns)
            raise ValueError(
                f"the columns belong to two tasks: {foreign[0]} does not belong to {task.name} ({required})"
            )
        if self.format == "conll":
            if not all(isinstance(column, int) for role in self._named_roles for column in self.columns(role)):
                raise ValueError("the columns of conll are numbers")
            return
        # Files that may be conll by their ending have the first and the last column by default.
        roles = self._named_roles if "conll" in task.formats else task.columns
        kinds = {isinstance(column, str) for role in roles for column in self.columns(role)}
        if len(kinds) > 1:
            raise ValueError(f"columns are all names or all numbers; {task.name} needs {', '.join(task.columns)}")
