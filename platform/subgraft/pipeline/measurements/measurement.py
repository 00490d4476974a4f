"""What a measurement of finetuned systems declares. Its module loads no torch: what measures imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from subgraft.config.experiment import Experiment
from subgraft.config.experiment.systems import System
from subgraft.evaluation.reporting.document import Form, MainColumn, Section
from subgraft.evaluation.reporting.records import ReportData
from subgraft.training.stage import Stage

Sections: TypeAlias = Callable[[ReportData], list[Section]]


class Node(Protocol):
    """A step of an experiment, which a measurement can have as an input."""

    @property
    def stage(self) -> Stage:
        """What makes it."""

    @property
    def name(self) -> str:
        """Its name, for display."""

    @property
    def inputs(self) -> Mapping[str, Node]:
        """The steps that it reads, by role."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Tags in MLflow: its system and seed."""


class Planned(NamedTuple):
    """A step that a measurement takes."""

    stage: Stage
    name: str
    inputs: Mapping[str, Node]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Subject:
    """A system under one seed, and the steps with which it can be measured.

    Attributes:
        pretrained: The model that it starts from, if that was pretrained.
        transfer: The model with new embeddings, if the vocabulary changes.
        upstream: The upstream model with its own vocabulary.
        vocabulary: The task's, of the decoder.
        upstream_corpus: None if no step reads it.
    """

    experiment: Experiment
    system: System
    pretrained: Node | None
    transfer: Node | None
    finetune: Node
    upstream: Node
    vocabulary: Node
    upstream_corpus: Node | None
    downstream_corpus: Node


@dataclass(frozen=True)
class Sources:
    """The directories from which the record of a system under one seed is read.

    Attributes:
        evaluation: The evaluation on the test set.
        steps: The measurement's own steps, by part.
        directions: The evaluations on each direction, in an experiment with directions.
        seen: How many test pairs of each direction occur in training text.
        zero_shot: The directions of whose two languages no step behind the system was trained on pairs.
    """

    evaluation: Path
    steps: Mapping[str, Path] = field(default_factory=dict)
    directions: Mapping[str, Path] = field(default_factory=dict)
    seen: Mapping[str, Path] = field(default_factory=dict)
    zero_shot: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MeasurementSpec:
    """A measurement of finetuned systems.

    Attributes:
        read: The record of a system under one seed, which `SystemResult.measured` finds by its class; None if it was
            not measured.
        after_results, after_learning: The sections of the report, by its form, and where they stand in it.
        column: A column of the main table.
        stage: The stage of its steps, if no other step has it.
        parts: The names of its steps: in the report's inputs, and before their figures in MLflow.
        steps: Those that a system needs, by part.
        compared: Parts with test scores, which `subgraft compare` shows too, by the name of their test set.
    """

    read: Callable[[Sources], object | None]
    after_results: Mapping[Form, Sections] = field(default_factory=dict)
    after_learning: Mapping[Form, Sections] = field(default_factory=dict)
    column: Callable[[ReportData], MainColumn | None] = lambda data: None
    stage: type[Stage] | None = None
    parts: tuple[str, ...] = ()
    steps: Callable[[Subject], Mapping[str, Planned]] = lambda subject: {}
    compared: Mapping[str, str] = field(default_factory=dict)
