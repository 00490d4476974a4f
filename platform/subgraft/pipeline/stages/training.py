"""Pretraining and finetuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.experiment.multitask import OWN
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import FinetuneSettings, PretrainSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.modeling.families import with_next_sentence
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import ObjectiveSettings, TaskObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.stage import EpochsOver, ExtraParameters, Inputs, KnownSizes, Summary, TrainedStage, built_config

if TYPE_CHECKING:
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context
    from subgraft.training.stage import KnownInputs


class PretrainStage(TrainedStage):
    """A pretraining.

    Attributes:
        model: The model to build; None continues the pretraining of the input `model`.
        sampling: How segmentations are sampled.
        language_exponent: α of p^α, by which languages are sampled.
    """

    stage_name: ClassVar[str] = "pretrain"
    revision: ClassVar[int] = 3

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    model: ModelSettings | None = None
    training: PretrainSettings
    sampling: SamplingSettings | None = None
    language_exponent: float | None = None

    def config_after(self, inputs: KnownInputs) -> Config:
        config = inputs.config("model") if self.model is None else built_config(self.model, inputs)
        return with_next_sentence(config) if self.predicts_next else config

    @property
    def predicts_next(self) -> bool:
        """Whether the model gets a head for next sentences, if it has none."""
        return any(objective.predicts_next for objective in self.objectives)

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    @property
    def further_corpora(self) -> dict[str, str]:
        """The names of the corpora of single objectives, by kind; they are the inputs `corpus/KIND`."""
        return {each.kind: each.own_corpus for each in self.objectives if each.own_corpus is not None}

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.pretrain import run

        return run(self, inputs, out, context)


class FirstPhase(Settings):
    """The first `share` of all steps, which trains only the embeddings of `sides`, or, without sides, the model's
    source encoder and what it needs.
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    sides: tuple[SideName, ...] = ()


class NewRows(Settings):
    """The sides with new rows; with `copy_shared_tokens` tokens of the upstream vocabulary have their old rows."""

    sides: tuple[SideName, ...]
    copy_shared_tokens: bool = True


class FinetuneStage(TrainedStage):
    """A finetuning on a task.

    Attributes:
        group: The section of its settings in a configuration.
        first_phase: In which only new embeddings or a source encoder are trained.
        tie_to_sources: Sides whose embeddings stay tied to those of the input `upstream`.
        embedding_learning_rate_sides: Sides whose embeddings have that learning rate, or are frozen by `train: body`.
        new_rows: Rows for `training.rare_tokens`, or that alone are trained; new is what the input `upstream` lacks.
        objective: Of the task's corpus.
        text_objective: Of the input `synthetic` (pairs) or else `text`.
        drift: Whether the curve reports how far the language model has moved from its initial weights.
        further_directions: Directions besides `languages`, by name; the input corpus/NAME has the pairs of each.
        direction_exponent: α of p^α, by which directions are drawn; None takes each pair once per epoch.
        keeps_head: Whether the input `model` has the task's head already, of a training on several tasks.
    """

    stage_name: ClassVar[str] = "finetune"
    revision: ClassVar[int] = 2

    # The name of its settings in a configuration.
    group: ClassVar[str] = "finetune"

    languages: Languages
    training: FinetuneSettings
    first_phase: FirstPhase | None = None
    tie_to_sources: tuple[SideName, ...] = ()
    embedding_learning_rate_sides: tuple[SideName, ...] = ()
    new_rows: NewRows | None = None
    objective: TaskObjectiveSettings = TranslationSettings()

    text_objective: TaskObjectiveSettings | None = None
    drift: bool = False
    further_directions: dict[str, Languages] = Field(default_factory=dict)
    direction_exponent: float | None = None
    keeps_head: bool = False

    @property
    def trained_on(self) -> tuple[TaskObjectiveSettings, ...]:
        return (self.objective,)

    @property
    def directions(self) -> dict[str, Languages]:
        """All directions by name: that of `languages`, then the others in alphabetical order."""
        return {self.languages.name: self.languages, **dict(sorted(self.further_directions.items()))}

    @property
    def pairs_between(self) -> tuple[Languages, ...]:
        return tuple(self.directions.values()) if self.objective.needs_pairs else ()

    def corpus_of(self, part: str) -> str:
        """The role of the input with the examples of a direction."""
        return "corpus" if part == self.languages.name else f"corpus/{part}"

    @property
    def parts(self) -> dict[str, FinetuneStage]:
        """The training on each direction alone, by its name."""
        return {
            name: self.model_copy(update={"languages": languages, "further_directions": {}})
            for name, languages in self.directions.items()
        }

    @property
    def epochs_over(self) -> EpochsOver:
        if self.text_objective is None:
            return EpochsOver()
        share = self.training.monolingual_fraction
        return EpochsOver(self.text_role) if share == 1.0 else EpochsOver(share=1.0 - share)

    @property
    def text_role(self) -> str:
        """The role of the input with text in addition to the task's corpus."""
        is_synthetic = self.text_objective is not None and self.text_objective.needs_pairs
        return "synthetic" if is_synthetic else "text"

    @property
    def frozen_embedding_sides(self) -> tuple[SideName, ...]:
        return self.embedding_learning_rate_sides if self.training.applied_embedding_learning_rate == 0 else ()

    @property
    def trains_model(self) -> bool:
        return self.training.train in ("all", "body")

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Tied embeddings train the old ones and residuals of the new ones, which are as large as the new ones.

        New rows that are trained alone are held in a copy of their embeddings.
        """
        head = (
            self.objective.labels.head if isinstance(self.objective, LabelledSettings | LabelledPairsSettings) else None
        )
        if head is not None and self.training.train != "adapters":
            new = head.parameters(sizes.width, 2)
            return ExtraParameters(held=new, trained=new, exact=False)
        if self.training.train == "new-rows" and self.new_rows is not None:
            return sizes.new_rows(self.new_rows.sides, self.new_rows.copy_shared_tokens)
        if self.training.adapters is not None:
            adapters = sizes.adapters(self.training.adapters.rank)
            return ExtraParameters(held=adapters, trained=adapters)
        if self.training.train == "head":  # a projection of states, and one to fewer labels than states have dimensions
            return ExtraParameters(trained=2 * sizes.width * (sizes.width + 1), exact=False)
        if not self.tie_to_sources:
            return ExtraParameters(exact=self.training.outer_layers is None)
        old, new = (sum(sizes.tables(role)[side] for side in self.tie_to_sources) for role in ("upstream", "model"))
        return ExtraParameters(held=(old + new) * sizes.width, trained=old * sizes.width)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.finetune import run

        return run(self, inputs, out, context)


class EmbeddingWarmupStage(FinetuneStage):
    """A finetuning of new rows alone, on text of the domain only."""

    stage_name: ClassVar[str] = "embedding-warmup"
    revision: ClassVar[int] = 2

    group: ClassVar[str] = "embedding_warmup_training"


class UnsupervisedStage(FinetuneStage):
    """A round of learning to translate in both directions.

    It trains on the input `synthetic`, pairs of the task's direction, and on `synthetic/reversed`, pairs of the other.
    Of the input `corpus` it reads dev alone.
    """

    stage_name: ClassVar[str] = "unsupervised"
    revision: ClassVar[int] = 1

    @property
    def epochs_over(self) -> EpochsOver:
        return EpochsOver("synthetic", share=0.5)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.back_translation import train_both_directions

        return train_both_directions(self, inputs, out, context)


class MultitaskStage(FinetuneStage):
    """A finetuning on several tasks at once, each with a head of its own.

    Attributes:
        training: Its `max_train_examples` are of `objective` alone.
        tasks: The tasks besides `objective`, by name; the input `corpus/NAME` has the examples of each.
    """

    stage_name: ClassVar[str] = "multitask"
    revision: ClassVar[int] = 2

    group: ClassVar[str] = "multitask_training"

    tasks: dict[str, TaskObjectiveSettings]

    @property
    def parts(self) -> dict[str, FinetuneStage]:
        """The training on each task alone, by its name."""
        return dict(self.by_task)

    @property
    def by_task(self) -> dict[str, MultitaskStage]:
        """The same training on each task alone; that of `objective` is the first, as OWN."""
        all_examples = self.training.model_copy(update={"max_train_examples": None})
        single_task = self.model_copy(update={"tasks": {}})
        others = {
            name: single_task.model_copy(update={"objective": objective, "training": all_examples})
            for name, objective in self.tasks.items()
        }
        return {OWN: single_task, **others}

    def corpus_of(self, part: str) -> str:
        """The role of the input with the examples of a task."""
        return "corpus" if part == OWN else f"corpus/{part}"

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.finetune import run_multitask

        return run_multitask(self, inputs, out, context)
