"""The stage that writes the report of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import SelectName
from subgraft.pipeline.measurements.registry import PARTS, MeasuredInputs
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class SweepPoint(Settings):
    """A system's position in a sweep: the settings that it shares with others, and its generator's training steps.

    Attributes:
        family: The settings that the system shares with others of a sweep, in words.
        variant: The same without the initialiser.
        generator_steps: 0 for `avg`, the initial state of every generator; None without a generator.
        pretraining_step: The updates of the pretraining that its weights are from, where systems differ in them.
        select: The score that selected the finetuning's weights; dev BLEU if None.
    """

    family: str
    variant: str = ""
    generator_steps: int | None = None
    pretraining_step: int | None = None
    select: SelectName | None = None


class SystemInputs(MeasuredInputs):
    """The steps that made and measured one system under one seed, as keys of the report's inputs.

    Each measurement adds a field for each of its parts.

    Attributes:
        pretrained: The model it starts from, if that was pretrained.
        distilled: A training of its new rows.
        embedding_warmup: A training of new embeddings before the finetuning.
        multitask: A training on several tasks before the finetuning.
        by_sentence: A finetuning on single sentences before that of a model with context.
        synthetic_data: Translations, and trainings for them, that made synthetic data which the system reads.
        directions: The evaluations on each direction, by name, in an experiment with directions.
        seen: How many test pairs of each direction occur in the text of the system's trainings.
    """

    finetune: str
    evaluate: str
    pretrained: str | None = None
    transfer: str | None = None
    generator: str | None = None
    static: dict[SideName, str] = Field(default_factory=dict)
    distilled: str | None = None
    embedding_warmup: str | None = None
    multitask: str | None = None
    by_sentence: str | None = None
    synthetic_data: tuple[str, ...] = ()
    directions: dict[str, str] = Field(default_factory=dict)
    seen: dict[str, str] = Field(default_factory=dict)

    @property
    def new_rows(self) -> tuple[str, ...]:
        """The steps that made new rows: a generator, static embeddings, or trainings of the rows."""
        return tuple(
            key for key in (self.generator, *self.static.values(), self.distilled, self.embedding_warmup) if key
        )

    @property
    def measured(self) -> dict[str, str]:
        """The steps of measurements, by part."""
        keys = {part: getattr(self, part) for part in PARTS}
        return {part: key for part, key in keys.items() if key}


class ReportedSystem(Settings):
    """A system under one seed.

    Attributes:
        trained_on: The directions of its finetuning, in an experiment with directions.
        zero_shot: Directions of whose two languages no step behind it was trained on pairs.
    """

    name: str
    seed: int
    design: SweepPoint
    inputs: SystemInputs
    trained_on: tuple[str, ...] = ()
    zero_shot: tuple[str, ...] = ()


class ReportStage(Stage):
    """The report of an experiment.

    Besides the systems' steps, inputs are `downstream_corpus`, `model`, `vocabulary`, `gap`, and `upstream_corpus` if
    there is one.

    Attributes:
        upstream, downstream: Names of the corpora; upstream is None for a checkpoint whose corpus no step reads.
        systems: In the order in which they are shown.
        settings: All settings of the experiment, to be shown.
    """

    stage_name: ClassVar[str] = "report"
    revision: ClassVar[int] = 7

    name: str
    languages: Languages
    upstream: str | None = None
    downstream: str
    systems: tuple[ReportedSystem, ...]
    baseline: str | None
    speed_batch_size: int
    bootstrap_samples: int
    select: SelectName
    settings: dict[str, Any]
    objective: TaskObjectiveSettings = TranslationSettings()

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.report import run

        return run(self, inputs, out, context)
