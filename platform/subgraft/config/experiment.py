"""What an experiment is: its settings, and what must hold between them. `configfile` reads it from YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Seed, Settings, SideName, VocabularyKind
from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.config.domains import DownstreamSettings, UpstreamSettings
from subgraft.config.evaluation import EvaluationSettings, IntrinsicSettings
from subgraft.config.initialiser_facts import LEARNINGS, LearningName, facts_of, names_with
from subgraft.config.initialisers import (
    GeneratorSettings,
    LikelihoodMatchingSettings,
    StaticEmbeddingSettings,
    TokenDistillationSettings,
)
from subgraft.config.models import ModelSettings, families_for
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.presets import with_preset
from subgraft.config.runtime import Runtime
from subgraft.config.search import SearchSettings, require_searchable
from subgraft.config.systems import System, require_trained_tables
from subgraft.config.tasks import TASKS, TaskName, tasks_with
from subgraft.config.training import ROWS_IN_PARTS, FinetuneSettings, ModelTrainingSettings, TrainingSettings
from subgraft.config.vocabularies import JointVocabularySettings

# Settings of a finetuning that name its steps.
_BY_STEP = ("evaluate_at", "batch_size_schedule", "dropout_schedule")


class Experiment(Settings):
    """A whole comparison. Settings that are not given come from the preset and the task (see `presets`).

    name: the experiment's name, in the tracker, the registry and the report.
    preset: the sizes and trainings that are used where the configuration gives none.
    task: what the model is finetuned for.
    question_generation: what a model reads, for the task of that name.
    languages: what the task reads and writes.
    seeds: a run of every system for each.
    sides: whose vocabulary changes.
    corpora: every corpus, by name.
    cleaning: which training pairs are kept.
    upstream: what the model is pretrained on, or the checkpoint.
    downstream: the task's corpus and vocabulary.
    joint_vocabulary: for systems with `pretraining: joint-vocabulary`.
    model: the size of a model that is pretrained here.
    pretrain: the training of the upstream model.
    generator: how generators work, in all systems.
    generator_training: the training of a generator.
    static_embeddings: for initialisers that need vectors of the new tokens.
    token_distillation: for systems of `token-distillation`.
    token_distillation_training: the training of these rows; needed if there is such a system.
    likelihood_matching: for systems of `likelihood-matching`.
    likelihood_matching_training: the training of these rows; needed if there is such a system.
    finetune: the finetuning of all systems.
    systems: what is compared.
    evaluation: how models are measured.
    intrinsic: measures new rows by themselves too; skipped where not given.
    search: what `subgraft search` does; the other commands ignore it.
    runtime: where and how steps run.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    preset: Literal["small", "gpu", "paper"] = "small"
    task: TaskName = Field(default="translation", exclude_if=lambda given: given == "translation")
    question_generation: QuestionGenerationSettings = Field(
        default=QuestionGenerationSettings(), exclude_if=lambda given: given == QuestionGenerationSettings()
    )
    languages: Languages
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (1,)
    sides: Annotated[tuple[SideName, ...], Field(min_length=1)] = ("decoder",)
    corpora: dict[str, CorpusSource]
    cleaning: Cleaning = Cleaning()
    upstream: UpstreamSettings
    downstream: DownstreamSettings
    joint_vocabulary: JointVocabularySettings = JointVocabularySettings()
    model: ModelSettings
    pretrain: ModelTrainingSettings
    generator: GeneratorSettings = GeneratorSettings()
    generator_training: TrainingSettings
    static_embeddings: StaticEmbeddingSettings = StaticEmbeddingSettings()
    token_distillation: TokenDistillationSettings = Field(
        default=TokenDistillationSettings(), exclude_if=lambda given: given == TokenDistillationSettings()
    )
    token_distillation_training: TrainingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    likelihood_matching: LikelihoodMatchingSettings = Field(
        default=LikelihoodMatchingSettings(), exclude_if=lambda given: given == LikelihoodMatchingSettings()
    )
    likelihood_matching_training: TrainingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    finetune: FinetuneSettings
    systems: Annotated[tuple[System, ...], Field(min_length=1)]
    evaluation: EvaluationSettings = EvaluationSettings()
    intrinsic: IntrinsicSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    search: SearchSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    runtime: Runtime = Runtime()

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: object) -> object:
        return with_preset(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _named(self) -> Experiment:
        for where, corpus in (("upstream", self.upstream.corpus), ("downstream", self.downstream.corpus)):
            if corpus not in self.corpora:
                raise ValueError(f"{where}.corpus '{corpus}' is not among corpora: {', '.join(self.corpora)}")
        given = {"system names": [system.name for system in self.systems], "seeds": self.seeds, "sides": self.sides}
        for what, values in given.items():
            if len(set(values)) != len(values):
                raise ValueError(f"{what} must be distinct")
        return self

    @property
    def marks(self) -> tuple[str, ...]:
        """Text that is written around an answer, which whatever reads a passage must be able to spell."""
        return self.question_generation.marks if TASKS[self.task].of_questions else ()

    @property
    def upstream_languages(self) -> Languages:
        """What the upstream corpus is in: the task's languages, unless it says others."""
        given = self.upstream.languages
        return given if isinstance(given, Languages) else self.languages

    @model_validator(mode="after")
    def _fits_its_task(self) -> Experiment:
        questions = {name for name, source in self.corpora.items() if source.squad}
        if self.upstream.corpus in questions:
            raise ValueError("squad holds a task's questions: it cannot be the upstream corpus")
        corpus, task = self.downstream.corpus, TASKS[self.task]
        if task.of_questions and corpus not in questions:
            raise ValueError(f"{self.task} needs a downstream corpus of kind squad, which '{corpus}' is not")
        if corpus in questions and not task.of_questions:
            about = " or ".join(f"`task: {name}`" for name in tasks_with("of_questions"))
            raise ValueError(f"corpus '{corpus}' is of kind squad, which {about} is about")
        if task.two_languages and self.languages.source == self.languages.target:
            raise ValueError(f"{self.task} is between two languages; within one, say `task: text-to-text`")
        return self

    @property
    def finetuned_on(self) -> ObjectiveSettings:
        """How the task's text is learnt."""
        return TASKS[self.task].finetuned_on.after(self.upstream.objectives)

    @model_validator(mode="after")
    def _bears_its_task(self) -> Experiment:
        """A decoder alone continues text, and only text that is to be continued can do without an encoder."""
        continues, kinds = TASKS[self.task].finetuned_on.continues, [each.kind for each in self.upstream.objectives]
        if not continues and any(objective.continues for objective in self.upstream.objectives):
            raise ValueError(
                f"{self.task} needs an encoder, which a model of the objective {' or '.join(kinds)} lacks; text that "
                "such a model continues is of `task: continuation`"
            )
        if continues:
            self._require_continuable(kinds)
        return self

    def _require_continuable(self, kinds: Sequence[str]) -> None:
        task = self.task
        if not all(objective.continues for objective in self.upstream.objectives):
            wanted = TASKS[task].finetuned_on.kind
            raise ValueError(
                f"{task} is for decoders alone: write upstream.objectives: [{{kind: {wanted}}}] and model.family "
                f"{' or '.join(families_for(wanted))}, not {', '.join(kinds)}"
            )
        if self.languages.source != self.languages.target:
            raise ValueError(f"{task} is of text in one language: source and target must be the same")
        if self.sides != ("decoder",):
            raise ValueError(f"{task} is for decoders alone: write `sides: [decoder]`")
        if self.finetune.select == "bleu":
            raise ValueError(f"finetune.select bleu: {task} has no BLEU; say likelihood, or last")
        for name in ("calibration", "by_token_count"):
            if getattr(self.evaluation, name):
                raise ValueError(f"evaluation.{name} is of outputs for a source, which {task} does not have")
        if self.search is not None:
            raise ValueError(f"a search measures dev BLEU, which {task} does not have")
        if learnt := [system.name for system in self.systems if facts_of(system.initialiser).learnt_by]:
            raise ValueError(f"system {learnt[0]} learns its rows on pairs, which {task} does not have")

    @model_validator(mode="after")
    def _tables_change(self) -> Experiment:
        by_step = [name for name in _BY_STEP if getattr(self.finetune, name)]
        if by_step and (phased := [system.name for system in self.systems if system.tables_first]):
            raise ValueError(
                f"system {phased[0]}: tables_first splits finetuning in two, so finetune.{by_step[0]} does not apply"
            )
        for system in self.systems:
            require_trained_tables(system, system.finetuning(self.finetune).embedding_learning_rate)
        return self

    @model_validator(mode="after")
    def _shareable(self) -> Experiment:
        if self.downstream.shared and len(self.sides) == 1:
            raise ValueError("downstream.shared: a vocabulary for both sides needs `sides: [encoder, decoder]`")
        return self

    @model_validator(mode="after")
    def _attachable(self) -> Experiment:
        attached = [system.name for system in self.systems if system.attached]
        if attached and self.runtime.zero_stage == 3:
            raise ValueError(f"system {attached[0]} is attached, which runtime.zero_stage 3 cannot train: use 2")
        return self

    @model_validator(mode="after")
    def _rows_can_be_held_back(self) -> Experiment:
        if self.runtime.zero_stage is not None and any(
            system.finetuning(self.finetune).rare_tokens for system in self.systems
        ):
            raise ValueError(ROWS_IN_PARTS)
        return self

    @model_validator(mode="after")
    def _searchable(self) -> Experiment:
        if self.search is not None:
            require_searchable(self.search, self.systems, self.finetune)
        return self

    @model_validator(mode="after")
    def _pretrainable(self) -> Experiment:
        """Systems with another pretraining than the plain one need one that happens here, with such a vocabulary."""
        others = [system.name for system in self.systems if system.pretraining != "plain"]
        if self.upstream.checkpoint is not None and others:
            raise ValueError(
                f"upstream.checkpoint brings a pretrained model, and these systems need a pretraining of their own: "
                f"{', '.join(others)}; leave out either"
            )
        if self.upstream.continue_pretraining and self.upstream.checkpoint is None:
            raise ValueError("upstream.continue_pretraining goes on with upstream.checkpoint, and none is given")
        if self.pretrain.select not in (None, "last") and not any(each.needs_dev for each in self.upstream.objectives):
            raise ValueError(
                f"pretrain.select {self.pretrain.select} goes by dev scores, which pretraining has only where "
                "translation is among upstream.objectives"
            )
        if self.pretrain.batch_size_schedule and len(self.upstream.objectives) > 1:
            raise ValueError("pretrain.batch_size_schedule needs one objective: several take turns, batch by batch")
        sampled = any(system.pretraining == "sampled" for system in self.systems)
        if sampled and self.upstream.vocabulary.kind == "wordpiece":
            raise ValueError("`pretraining: sampled` needs an upstream vocabulary of kind unigram or bpe")
        for objective in self.upstream.objectives if sampled else ():
            if not objective.samples:
                raise ValueError(f"`pretraining: sampled` does not work with the objective {objective.kind}")
            if objective.sampled_as not in (None, *self.upstream.sampling.sides):
                raise ValueError(
                    f"text of the objective {objective.kind} counts as the {objective.sampled_as}'s: "
                    "upstream.sampling.sides must name it"
                )
        return self

    @model_validator(mode="after")
    def _mixable(self) -> Experiment:
        heads = sorted({objective.head for objective in self.upstream.objectives})
        if len(heads) > 1 and self.runtime.zero_stage is not None:
            raise ValueError(
                f"upstream.objectives train heads of their own ({', '.join(heads)}), which DeepSpeed would move in "
                "every step, used or not: leave out runtime.zero_stage"
            )
        return self

    @model_validator(mode="after")
    def _blocks_fit(self) -> Experiment:
        longest = max(self.pretrain.max_length, self.generator_training.max_length)
        for place, objective in enumerate(self.upstream.objectives):
            if (objective.longest_block or 0) > longest:
                raise ValueError(
                    f"upstream.objectives.{place}.block_tokens {objective.longest_block} is beyond the {longest} of "
                    "pretrain.max_length and generator_training.max_length"
                )
        return self

    @model_validator(mode="after")
    def _measurable(self) -> Experiment:
        """What is measured beside the task needs something to be measured on."""
        if self.evaluation.upstream_sentences is not None and not self.upstream.translates:
            raise ValueError(
                "evaluation.upstream_sentences translates the upstream corpus: a model that was pretrained otherwise "
                "cannot translate before it is finetuned, so translation must be among upstream.objectives"
            )
        learnt = {None, *names_with("learnt_by")}
        if self.intrinsic is not None and all(system.initialiser in learnt for system in self.systems):
            raise ValueError(
                f"intrinsic measures systems with an initialiser other than {' and '.join(LEARNINGS)}: there is none"
            )
        return self

    @model_validator(mode="after")
    def _as_wide_as_the_table(self) -> Experiment:
        """A checkpoint's width is not known before it is there."""
        width = self.static_embeddings.dimensions
        unmapped = [system.name for system in self.systems if facts_of(system.initialiser).as_they_are]
        if unmapped and self.upstream.checkpoint is None and width not in (None, self.model.d_model):
            raise ValueError(
                f"system {unmapped[0]} takes static embeddings as they are: static_embeddings.dimensions is {width}, "
                f"model.d_model {self.model.d_model}"
            )
        return self

    @model_validator(mode="after")
    def _trainable(self) -> Experiment:
        """A model that is made here must support its objectives, vocabularies, sides and lengths."""
        if self.upstream.checkpoint is not None:
            return self
        family, kinds = self.model.family, self.model.vocabulary_kinds
        for objective in self.upstream.objectives:
            if objective.kind not in self.model.objectives:
                able = " or ".join(families_for(objective.kind))
                raise ValueError(f"the objective {objective.kind} needs model.family {able}, not {family}")
        for where, kind in self._kinds_it_is_pretrained_with.items():
            if kind not in kinds:
                raise ValueError(f"model.family {family} needs {where}.kind {' or '.join(kinds)}, not {kind}")
        if absent := [side for side in self.sides if side not in self.model.sides]:
            raise ValueError(f"sides: a model of the family {family} has no {absent[0]}")
        if self.model.one_table and not self.downstream.shared:
            raise ValueError(f"model.family {family} has one table for both sides: it needs downstream.shared: true")
        longest = max(self.pretrain.max_length, self.longest_after_pretraining)
        if longest > self.model.max_positions:
            raise ValueError(f"a max_length of {longest} is beyond model.max_positions {self.model.max_positions}")
        return self

    @property
    def _kinds_it_is_pretrained_with(self) -> dict[str, VocabularyKind]:
        """Kinds of the vocabularies that models are pretrained with here, by their settings."""
        ways = {system.pretraining for system in self.systems}
        kinds = {"upstream.vocabulary": self.upstream.vocabulary.kind}
        kinds |= {"downstream.vocabulary": self.downstream.vocabulary.kind} if "downstream-vocabulary" in ways else {}
        return kinds | ({"joint_vocabulary": self.joint_vocabulary.kind} if "joint-vocabulary" in ways else {})

    @property
    def pretrains(self) -> bool:
        """Whether the upstream model is pretrained here, from nothing or further than its checkpoint was."""
        return self.upstream.checkpoint is None or self.upstream.continue_pretraining

    @property
    def longest_of_checkpoint(self) -> int:
        """The longest sequence, in tokens, of all trainings of a checkpoint."""
        further = self.pretrain.max_length if self.upstream.continue_pretraining else 0
        return max(further, self.longest_after_pretraining)

    @property
    def longest_after_pretraining(self) -> int:
        """The longest sequence, in tokens, of the trainings that come after pretraining."""
        learning: list[TrainingSettings | None] = [getattr(self, facts.training) for facts in LEARNINGS.values()]
        trainings = (self.generator_training, *learning, self.finetune)
        return max(training.max_length for training in trainings if training is not None)

    def learns(self, learning: LearningName) -> bool:
        """Whether any system's new tokens are learnt so."""
        return any(facts_of(system.initialiser).learnt_by == learning for system in self.systems)

    @model_validator(mode="after")
    def _learnable(self) -> Experiment:
        """Learnt rows need their training's settings, and sides that they can be learnt for."""
        for name in filter(self.learns, LEARNINGS):
            facts = LEARNINGS[name]
            if getattr(self, facts.training) is None:
                raise ValueError(f"systems of {name} need {facts.training}")
            if facts.decoder_alone and self.sides != ("decoder",):
                raise ValueError(f"{name} learns what a decoder predicts: its systems need `sides: [decoder]`")
        return self

    @model_validator(mode="after")
    def _distillable(self) -> Experiment:
        """A checkpoint's depth is not known before it is there."""
        depth = min(self.model.depth(side) for side in self.sides)
        here = self.learns("token-distillation") and self.upstream.checkpoint is None
        if here and (self.token_distillation.layer or 1) > depth:
            raise ValueError(
                f"token_distillation.layer {self.token_distillation.layer} is beyond the {depth} layers of a side"
            )
        return self

    @model_validator(mode="after")
    def _matchable(self) -> Experiment:
        """A model has translations of its own before it is finetuned only if it was pretrained to translate."""
        if not self.learns("likelihood-matching"):
            return self
        if self.likelihood_matching.text == "own-translations" and not self.upstream.translates:
            raise ValueError(
                "likelihood_matching.text own-translations needs a model that can translate before it is finetuned: "
                "translation must be among upstream.objectives"
            )
        return self
