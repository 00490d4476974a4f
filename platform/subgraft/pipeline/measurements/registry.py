"""All measurements.

To add one: a module like `intrinsic.py` or `likelihood.py` and, here, its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pydantic import create_model

from subgraft.config.settings_base import Settings
from subgraft.evaluation.reporting.document import Form, Measured, Section
from subgraft.evaluation.reporting.records import ReportData
from subgraft.pipeline.measurements.calibration import CALIBRATION
from subgraft.pipeline.measurements.directions import DIRECTIONS
from subgraft.pipeline.measurements.documents import DOCUMENTS
from subgraft.pipeline.measurements.forgetting import FORGETTING
from subgraft.pipeline.measurements.intrinsic import INTRINSIC
from subgraft.pipeline.measurements.likelihood import LIKELIHOOD
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Planned, Sections, Sources, Subject
from subgraft.pipeline.measurements.written_text import WRITTEN_TEXT

# In the order of a report's sections.
ENTRIES: tuple[MeasurementSpec, ...] = (
    DIRECTIONS,
    DOCUMENTS,
    CALIBRATION,
    FORGETTING,
    INTRINSIC,
    LIKELIHOOD,
    WRITTEN_TEXT,
)
PARTS: tuple[str, ...] = tuple(part for entry in ENTRIES for part in entry.parts)
# The test sets other than the task's own, by the part with their scores.
COMPARED: Mapping[str, str] = {part: test_set for entry in ENTRIES for part, test_set in entry.compared.items()}

if TYPE_CHECKING:
    MeasuredInputs = Settings
else:  # a field for each part: the key of its step among the report's inputs
    MeasuredInputs = create_model("MeasuredInputs", __base__=Settings, **dict.fromkeys(PARTS, (str | None, None)))


def planned_steps(subject: Subject) -> dict[str, Planned]:
    """The steps of all measurements that an experiment configures, by part."""
    return {part: step for entry in ENTRIES for part, step in entry.steps(subject).items()}


def records(sources: Sources) -> tuple[object, ...]:
    """The records of a system under one seed."""
    read = (entry.read(sources) for entry in ENTRIES)
    return tuple(record for record in read if record is not None)


def measured(data: ReportData, form: Form) -> Measured:
    """What measurements add to a report of this form."""

    def drawn(sections: Callable[[MeasurementSpec], Mapping[Form, Sections]]) -> tuple[Section, ...]:
        by_form = (sections(entry) for entry in ENTRIES)
        return tuple(section for each in by_form if form in each for section in each[form](data))

    columns = (entry.column(data) for entry in ENTRIES) if form == "translation" else ()
    return Measured(
        drawn(lambda entry: entry.after_results),
        drawn(lambda entry: entry.after_learning),
        tuple(column for column in columns if column is not None),
    )
