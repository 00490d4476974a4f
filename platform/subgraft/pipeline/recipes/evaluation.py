"""Recipes of the stages that evaluate models and write the report."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.evaluation import IntrinsicSettings, MeasurementSettings, RankingSettings
from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import SelectName
from subgraft.pipeline.recipes.recipe import Recipe


class EvaluateRecipe(Recipe):
    """speed: whether generation is timed.  split: what is translated, its first `test_sentences`.

    Both are left out of the fingerprint at their defaults.  objective: how the text was learnt; left out where it is
    pairs.  packages: the package and version of each metric that is not our own; left out where there is none.
    ranking: of a model's sources; left out where it has none.
    """

    languages: Languages
    evaluation: MeasurementSettings
    speed: bool = Field(default=True, exclude_if=bool)
    split: Literal["dev", "test"] = Field(default="test", exclude_if=lambda given: given == "test")
    objective: TaskObjectiveSettings = Field(
        default=TranslationSettings(), exclude_if=lambda given: given == TranslationSettings()
    )
    packages: dict[str, str] = Field(default_factory=dict, exclude_if=lambda given: not given)
    ranking: RankingSettings | None = Field(default=None, exclude_if=lambda given: given is None)


class IntrinsicRecipe(Recipe):
    """package: with its version, which offers a method that is not our own; left out of the fingerprint elsewhere.

    seed: of the random initialisers, as a transfer has it; the sample has its own."""

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = Field(default=None, exclude_if=lambda given: given is None)
    sample: IntrinsicSettings


class LikelihoodRecipe(Recipe):
    """test_sentences: the first ones of the test set; all where it is None."""

    languages: Languages
    test_sentences: int | None = None


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
    embedding_warmup: a training of new embeddings before the finetuning.  made_text: what was translated, or trained
    for that, to make text that the system reads. Both are left out of the fingerprint where there is none.
    upstream_before, upstream_after: the upstream test set, translated before and after finetuning.
    """

    finetune: str
    evaluate: str
    pretrained: str | None = None
    transfer: str | None = None
    generator: str | None = None
    static: dict[SideName, str] = Field(default_factory=dict)
    distilled: str | None = None
    embedding_warmup: str | None = Field(default=None, exclude_if=lambda given: given is None)
    made_text: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    upstream_before: str | None = None
    upstream_after: str | None = None
    intrinsic: str | None = None
    likelihood: str | None = None

    @property
    def new_rows(self) -> tuple[str, ...]:
        """What new rows were made with: a generator, static embeddings, or trainings of their own."""
        return tuple(
            key for key in (self.generator, *self.static.values(), self.distilled, self.embedding_warmup) if key
        )

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
