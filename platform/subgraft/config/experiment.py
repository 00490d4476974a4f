"""What an experiment is: its settings, and what must hold between them. `configfile` reads it from YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Seed, Settings, SideName, TaskName, VocabularyKind
from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.config.domains import DownstreamSettings, UpstreamSettings
from subgraft.config.evaluation import EvaluationSettings, IntrinsicSettings
from subgraft.config.initialisers import (
    GeneratorSettings,
    LikelihoodMatchingSettings,
    StaticEmbeddingSettings,
    TokenDistillationSettings,
)
from subgraft.config.presets import with_preset
from subgraft.config.rows import DISTILLED, UNMAPPED, Row, require_trained_tables
from subgraft.config.runtime import Runtime
from subgraft.config.search import SearchSettings, require_searchable
from subgraft.config.training import ROWS_IN_PARTS, ModelSettings, TrainingSettings
from subgraft.config.vocabularies import JointVocabularySettings

_LEARNING_ROWS = ("token_distillation_training", "likelihood_matching_training")


class Experiment(Settings):
    """A whole comparison. Settings that are not given come from the preset and the task (see `presets`).

    task, question_generation: left out of what the report records where they say what has always been so.
    token_distillation_training, likelihood_matching_training: there where a row needs them, and in no fingerprint
    elsewhere.  search: what `subgraft search` does; the other commands pass over it.
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
    pretrain: TrainingSettings
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
    finetune: TrainingSettings
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
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
        given = {"row names": [row.name for row in self.rows], "seeds": self.seeds, "sides": self.sides}
        for what, values in given.items():
            if len(set(values)) != len(values):
                raise ValueError(f"{what} must be distinct")
        return self

    @property
    def upstream_languages(self) -> Languages:
        """What the upstream corpus is in: the task's languages, unless it says others."""
        return self.upstream.languages or self.languages

    @model_validator(mode="after")
    def _fits_its_task(self) -> Experiment:
        questions = {name for name, source in self.corpora.items() if source.squad}
        if self.upstream.corpus in questions:
            raise ValueError("squad holds a task's questions: it cannot be the upstream corpus")
        corpus, asks = self.downstream.corpus, self.task == "question-generation"
        if asks and corpus not in questions:
            raise ValueError(f"question-generation needs a downstream corpus of kind squad, which '{corpus}' is not")
        if corpus in questions and not asks:
            raise ValueError(f"corpus '{corpus}' is of kind squad, which `task: question-generation` is about")
        if self.task == "translation" and self.languages.source == self.languages.target:
            raise ValueError("translation is between two languages; within one, say `task: text-to-text`")
        return self

    @model_validator(mode="after")
    def _tables_change(self) -> Experiment:
        for where in ("pretrain", "generator_training", *_LEARNING_ROWS):
            training: TrainingSettings | None = getattr(self, where)
            if training is not None and training.embedding_learning_rate is not None:
                raise ValueError(f"{where}.embedding_learning_rate: only finetune has tables that change")
            if training is not None and training.rare_tokens is not None:
                raise ValueError(f"{where}.rare_tokens: only finetune has new rows")
            if training is not None and training.pairs is not None:
                raise ValueError(f"{where}.pairs: only finetune can do with some of its text; limit the corpus")
        if self.finetune.evaluate_at and (phased := [row.name for row in self.rows if row.tables_first]):
            raise ValueError(f"row {phased[0]}: tables_first makes two trainings, so finetune.evaluate_at says nothing")
        for row in self.rows:
            require_trained_tables(row, row.finetuning(self.finetune).embedding_learning_rate)
        return self

    @model_validator(mode="after")
    def _shareable(self) -> Experiment:
        if self.downstream.shared and len(self.sides) == 1:
            raise ValueError("downstream.shared: a vocabulary for both sides needs `sides: [encoder, decoder]`")
        return self

    @model_validator(mode="after")
    def _attachable(self) -> Experiment:
        attached = [row.name for row in self.rows if row.attached]
        if attached and self.runtime.zero_stage == 3:
            raise ValueError(f"row {attached[0]} is attached, which runtime.zero_stage 3 cannot train: use 2")
        return self

    @model_validator(mode="after")
    def _rows_can_be_held_back(self) -> Experiment:
        if self.runtime.zero_stage is not None and any(row.finetuning(self.finetune).rare_tokens for row in self.rows):
            raise ValueError(ROWS_IN_PARTS)
        return self

    @model_validator(mode="after")
    def _searchable(self) -> Experiment:
        if self.search is not None:
            require_searchable(self.search, self.rows, self.finetune)
        return self

    @model_validator(mode="after")
    def _pretrainable(self) -> Experiment:
        """Rows that need another pretraining than the plain one need one that happens here, with such a vocabulary."""
        others = [row.name for row in self.rows if row.pretraining != "plain"]
        if self.upstream.checkpoint is not None and others:
            raise ValueError(
                f"upstream.checkpoint brings a model that cannot be pretrained again, which these rows are about: "
                f"{', '.join(others)}; leave out either"
            )
        sampled = any(row.pretraining == "sampled" for row in self.rows)
        if sampled and self.upstream.vocabulary.kind == "wordpiece":
            raise ValueError("`pretraining: sampled` needs an upstream vocabulary of kind unigram or bpe")
        for objective in self.upstream.objectives if sampled else ():
            if not objective.samples:
                raise ValueError(f"`pretraining: sampled` cannot be had with the objective {objective.kind}")
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
        if self.intrinsic is not None and all(row.initialiser in (None, *DISTILLED) for row in self.rows):
            raise ValueError(
                f"intrinsic measures rows with an initialiser other than {' and '.join(DISTILLED)}: there is none"
            )
        return self

    @model_validator(mode="after")
    def _as_wide_as_the_table(self) -> Experiment:
        """A checkpoint's width is not known before it is there."""
        width = self.static_embeddings.dimensions
        unmapped = [row.name for row in self.rows if row.initialiser in UNMAPPED]
        if unmapped and self.upstream.checkpoint is None and width not in (None, self.model.d_model):
            raise ValueError(
                f"row {unmapped[0]} takes static embeddings as they are: static_embeddings.dimensions is {width}, "
                f"model.d_model {self.model.d_model}"
            )
        return self

    @model_validator(mode="after")
    def _trainable(self) -> Experiment:
        """A checkpoint brings a model of its own; one that is made here must bear what it is trained with."""
        if self.upstream.checkpoint is not None:
            return self
        for objective in self.upstream.objectives:
            if objective.needs_language_codes and not self.model.has_language_codes:
                raise ValueError(f"the objective {objective.kind} needs model.family mbart, which has language codes")
            if objective.architecture != self.model.architecture:
                raise ValueError(
                    f"the objective {objective.kind} is for models of the form {objective.architecture}; model.family "
                    f"{self.model.family} is of the form {self.model.architecture}"
                )
        for where, kind in self._kinds_it_is_pretrained_with.items():
            if self.model.family == "bert" and kind != "wordpiece":
                raise ValueError(f"model.family bert needs {where}.kind wordpiece, which has a mask token")
        longest = max(self.pretrain.max_length, self.longest_after_pretraining)
        if longest > self.model.max_positions:
            raise ValueError(f"a max_length of {longest} is beyond model.max_positions {self.model.max_positions}")
        return self

    @property
    def _kinds_it_is_pretrained_with(self) -> dict[str, VocabularyKind]:
        """Kinds of the vocabularies that any row's pretraining takes, by where they are given."""
        ways = {row.pretraining for row in self.rows}
        kinds = {"upstream.vocabulary": self.upstream.vocabulary.kind}
        kinds |= {"downstream.vocabulary": self.downstream.vocabulary.kind} if "downstream-vocabulary" in ways else {}
        return kinds | ({"joint_vocabulary": self.joint_vocabulary.kind} if "joint-vocabulary" in ways else {})

    @property
    def longest_after_pretraining(self) -> int:
        """The longest sequence, in tokens, of the trainings that come after pretraining."""
        learning: list[TrainingSettings | None] = [getattr(self, name) for name in _LEARNING_ROWS]
        trainings = (self.generator_training, *learning, self.finetune)
        return max(training.max_length for training in trainings if training is not None)

    @model_validator(mode="after")
    def _distillable(self) -> Experiment:
        """A checkpoint's depth is not known before it is there."""
        needed = any(row.initialiser == "token-distillation" for row in self.rows)
        if needed and self.token_distillation_training is None:
            raise ValueError("rows of token-distillation need token_distillation_training")
        depth = min(getattr(self.model, f"{side}_layers") for side in self.sides)
        if needed and self.upstream.checkpoint is None and (self.token_distillation.layer or 1) > depth:
            raise ValueError(
                f"token_distillation.layer {self.token_distillation.layer} is beyond the {depth} layers of a side"
            )
        return self

    @model_validator(mode="after")
    def _matchable(self) -> Experiment:
        """Likelihood matching is about what a decoder predicts."""
        if not any(row.initialiser == "likelihood-matching" for row in self.rows):
            return self
        if self.likelihood_matching_training is None:
            raise ValueError("rows of likelihood-matching need likelihood_matching_training")
        if self.sides != ("decoder",):
            raise ValueError("rows of likelihood-matching learn what a decoder predicts: they need `sides: [decoder]`")
        if self.likelihood_matching.text == "own-translations" and not self.upstream.translates:
            raise ValueError(
                "likelihood_matching.text own-translations needs a model that can translate before it is finetuned: "
                "translation must be among upstream.objectives"
            )
        return self
