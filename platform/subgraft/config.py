"""What an experiment is: its rows, its settings, and what must hold between them. `configfile` reads it from YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.presets import with_preset
from subgraft.settings import (
    Cleaning,
    CorpusSource,
    DownstreamSettings,
    EvaluationSettings,
    GeneratorSettings,
    JointVocabularySettings,
    Languages,
    ModelSettings,
    Runtime,
    Settings,
    SideName,
    StaticEmbeddingSettings,
    TrainingSettings,
    UpstreamSettings,
)

InitialiserName = Literal[
    "random",
    "random-matched",
    "mean",
    "avg",
    "att",
    "patt",
    "reconstruction",
    "word2vec",
    "word2vec-mapped",
    "cbow",
    "focus",
    "wechsel",
    "omp",
]
PretrainingName = Literal["plain", "sampled", "downstream-vocabulary", "joint-vocabulary", "none"]


class Row(Settings):
    """One way of fitting the vocabulary: a line of the comparison.

    kd_weight: the paper's lambda (equation 5); without it a generator is trained without distillation.
    pretraining: how the model that the row begins with was made: the plain one; one pretrained with sampled
    segmentations; one pretrained with the downstream or a joint vocabulary, which it keeps; or none, from nothing.
    keep_seen: whether tokens that both vocabularies have keep their rows; else the initialiser makes these too.
    tables_first: the share of the finetuning's steps, at its beginning, that trains the new tables alone.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*$")]
    vocabulary: Literal["upstream", "downstream"] = "downstream"
    initialiser: InitialiserName | None = None
    kd_weight: Annotated[float, Field(ge=0)] | None = None
    pretraining: PretrainingName = "plain"
    keep_seen: bool = True
    tables_first: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def made_with_its_vocabulary(self) -> bool:
        """Whether the row's model has its vocabulary from the start, so that there is no transfer."""
        return self.pretraining in ("downstream-vocabulary", "joint-vocabulary", "none")

    @model_validator(mode="after")
    def _consistent(self) -> Row:
        if self.made_with_its_vocabulary and (self.initialiser is not None or self.vocabulary == "upstream"):
            raise ValueError(
                f"with `pretraining: {self.pretraining}` the model is made with its vocabulary: "
                "give neither an initialiser nor `vocabulary: upstream`"
            )
        if self.initialiser is None and not (self.keep_seen and self.tables_first == 0):
            raise ValueError("keep_seen and tables_first are for rows with an initialiser: the others get no new rows")
        if not self.made_with_its_vocabulary and (self.initialiser is None) != (self.vocabulary == "upstream"):
            raise ValueError("an initialiser belongs to exactly the rows with `vocabulary: downstream`")
        if self.kd_weight is not None and self.initialiser not in ("att", "patt"):
            raise ValueError("kd_weight applies to att and patt only: the others have nothing to train")
        return self


class Experiment(Settings):
    """A whole comparison. Settings that are not given come from the preset (see `presets`)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    preset: Literal["small", "gpu", "paper"] = "small"
    languages: Languages
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (1,)
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
    finetune: TrainingSettings
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    evaluation: EvaluationSettings = EvaluationSettings()
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
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise ValueError("row names must be distinct")
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
        if sampled and self.upstream.objective == "denoising" and "decoder" not in self.upstream.sampling.sides:
            raise ValueError("a denoised text counts as the decoder's: upstream.sampling.sides must name it")
        return self

    @model_validator(mode="after")
    def _as_wide_as_the_table(self) -> Experiment:
        """A checkpoint's width is not known before it is there."""
        width = self.static_embeddings.dimensions
        unmapped = [row.name for row in self.rows if row.initialiser in ("word2vec", "cbow")]
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
        if self.upstream.objective == "denoising" and self.model.family != "mbart":
            raise ValueError("upstream.objective denoising needs model.family mbart, which has language codes")
        if (self.upstream.objective == "masked") != (self.model.family == "bert"):
            raise ValueError("upstream.objective masked and model.family bert go together: give both or neither")
        if self.model.family == "bert" and self.upstream.vocabulary.kind != "wordpiece":
            raise ValueError("model.family bert needs upstream.vocabulary.kind wordpiece, which has a mask token")
        longest = max(self.pretrain.max_length, self.generator_training.max_length, self.finetune.max_length)
        if longest > self.model.max_positions:
            raise ValueError(f"a max_length of {longest} is beyond model.max_positions {self.model.max_positions}")
        return self
