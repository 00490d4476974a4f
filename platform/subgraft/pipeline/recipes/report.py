"""The recipe of the stage report: a manifest of the systems compared, and what is said of the experiment as a whole."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from subgraft.config.settings_base import Settings, SideName
from subgraft.config.corpora import Languages
from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.config.training import SelectName
from subgraft.pipeline.recipes.recipe import Recipe


class Design(Settings):
    """Where a system stands in a sweep: what it shares with others, and how long its generator was trained.

    family: what the system shares with others of a sweep, in words.  variant: that without the initialiser.
    generator_steps: 0 for `avg`, which is what every generator begins as; None without a generator.  select: what its
    finetuning chose its weights by; dev BLEU where it is not given.
    """

    family: str
    variant: str = ""
    generator_steps: int | None = None
    select: SelectName | None = None


class SystemInputs(Settings):
    """Of one system under one seed: what it was made by and measured by, as keys of the report's inputs.

    pretrained: the model it begins with, where that was pretrained.  distilled: a training of its new rows.
    rows_first: another one, before the finetuning.  made_text: what was translated, or trained for that, to make text
    that the system reads. Both are left out of the fingerprint where there is none.
    upstream_before, upstream_after: the upstream test set, translated before and after finetuning.
    """

    finetune: str
    evaluate: str
    pretrained: str | None = None
    transfer: str | None = None
    generator: str | None = None
    static: dict[SideName, str] = Field(default_factory=dict)
    distilled: str | None = None
    rows_first: str | None = Field(default=None, exclude_if=lambda given: given is None)
    made_text: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    upstream_before: str | None = None
    upstream_after: str | None = None
    intrinsic: str | None = None
    likelihood: str | None = None

    @property
    def new_rows(self) -> tuple[str, ...]:
        """What new rows were made with: a generator, static embeddings, or trainings of their own."""
        return tuple(key for key in (self.generator, *self.static.values(), self.distilled, self.rows_first) if key)

    @property
    def own(self) -> tuple[str, ...]:
        """What no other system or seed has part in."""
        return tuple(key for key in (self.finetune, self.evaluate, self.upstream_after, self.likelihood) if key)


class ReportedSystem(Settings):
    """A system under one seed."""

    name: str
    seed: int
    design: Design
    inputs: SystemInputs


class ReportRecipe(Recipe):
    """systems: in the order in which they are shown.  baseline: the one that the others are compared with.

    upstream, downstream: names of the corpora; upstream is None beside a checkpoint whose text nothing reads.  select:
    what finetunings choose their weights by.  settings: all that was set, to be shown.  objective: how the task's text
    was learnt, left out of the fingerprint where it is pairs. The step's further inputs are `upstream_corpus` where it
    is named, `downstream_corpus`, `model`, `vocabulary` and `gap`.
    """

    name: str
    languages: Languages
    upstream: str | None = Field(default=None, exclude_if=lambda given: given is None)
    downstream: str
    systems: tuple[ReportedSystem, ...]
    baseline: str | None
    speed_batch_size: int
    bootstrap_samples: int
    select: SelectName
    settings: dict[str, Any]
    objective: TaskObjectiveSettings = Field(
        default=TranslationSettings(), exclude_if=lambda given: given == TranslationSettings()
    )
