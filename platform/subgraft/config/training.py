"""Settings of pretraining, finetuning and embedding warmup, and of the sampled softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_COUNT, MAX_SEQUENCE_LENGTH, MAX_WIDTH
from subgraft.config.settings_base import UNSET, Count, EngineSetting, Settings, Share


class NearestTargets(Settings):
    """The tokens nearest to the targets (Zheng et al., EMNLP 2021, section 3.1, algorithm 2).

    kind: the kind of target sampling.
    neighbours: for each target, the tokens with the largest inner products with its output embedding.
    rebuild_every: updates between searches for neighbours.
    drawn: other tokens in the softmax, drawn uniformly for each batch and weighted by the number of tokens that each
    stands for, which makes the denominator unbiased (Mussmann, Levy and Ermon, UAI 2017).
    """

    kind: Literal["nearest"] = "nearest"
    neighbours: Count = 50
    rebuild_every: Count = 500
    drawn: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0


class UniformTargets(Settings):
    """Tokens drawn uniformly for each batch (Jean et al., ACL 2015, section 3).

    kind: the kind of target sampling.
    drawn: the number of tokens.
    """

    kind: Literal["uniform"] = "uniform"
    drawn: Count = 10_000


class NoiseContrastive(Settings):
    """Noise-contrastive estimation (Mnih and Teh, ICML 2012): logistic regression separates targets from uniform noise
    drawn for each batch. The softmax's denominator is taken to be the number of tokens.

    kind: the kind of target sampling.
    drawn: the number of noise tokens for each target of a batch.
    """

    kind: Literal["noise-contrastive"] = "noise-contrastive"
    drawn: Count = 10_000


TargetSamplingSettings = Annotated[NearestTargets | UniformTargets | NoiseContrastive, Field(discriminator="kind")]
ScheduleName = Literal["inverse-square-root", "linear", "noam", "cosine", "constant"]
OptimizerName = Literal["adamw", "adamax"]
Length = Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)]
SelectName = Literal["bleu", "chrf", "likelihood", "score", "last"]
NamedPrecision = Literal["fp32", "bf16"]
Precision = Literal["fp32", "bf16", "auto"]
TrainName = Literal["all", "new-rows", "body", "adapters", "head"]

# The best of three shares of the body's rate for a pretrained decoder's embeddings that are its output projection too:
# docs/measurements/pretrained-language-model.md.
TIED_EMBEDDING_RATIO = 0.3

# DeepSpeed shards embedding matrices, and only its own optimizer can update the shards.
ROWS_IN_PARTS = (
    "rare_tokens and new_embedding_learning_rate: DeepSpeed cannot train single rows of an embedding matrix; leave out "
    "runtime.zero_stage"
)


class RareTokenSettings(Settings):
    """How new embeddings are trained whose tokens occur fewer than `min_count` times in the task's training text.

    min_count: occurrences from which on a token is not rare.
    learning_rate_factor: the scale of their updates; 0 freezes them.
    l2_to_init: decay of these embeddings towards their initial values: in full for a token that does not occur, falling
    linearly to zero at min_count.
    """

    min_count: Count = 10
    learning_rate_factor: Share = 1.0
    l2_to_init: Annotated[float, Field(ge=0)] = 0.0

    @property
    def idle(self) -> bool:
        """Whether these settings change nothing."""
        return self.learning_rate_factor == 1.0 and self.l2_to_init == 0.0


class DropoutFrom(Settings):
    """A dropout of hidden states from a given step on.

    step: the number of updates before it applies.
    dropout: the probability.
    """

    step: Annotated[int, Field(ge=0, le=MAX_COUNT)]
    dropout: Annotated[float, Field(ge=0, lt=1)]


class BatchSizeFrom(Settings):
    """A batch size from a given step on.

    step: the number of updates before it applies.
    batch_size: in units of `batch_unit`.
    """

    step: Count
    batch_size: Count


class LengthFrom(Settings):
    """A length of sequences from a given step on.

    step: the number of updates before it applies.
    max_length: in tokens, with special ones.
    """

    step: Count
    max_length: Length


class TrainingSettings(Settings):
    """A training: every setting that its result depends on. Devices and workers are in `runtime`.

    epochs: the maximum number of passes over the training data; set epochs, max_steps or both.
    max_steps: the maximum number of updates.
    stop_after: stop after this many updates; schedules keep the planned length.
    batch_size: the global batch, over all workers and with padding, in units of `batch_unit`.
    batch_size_schedule: other batch sizes from later steps on.
    batch_unit: the unit of batch sizes: target tokens, or target characters, which are the same for every vocabulary.
    micro_batch_size: compute each batch in parts of this size on each worker, to save memory; results differ by
    rounding.
    max_length: the maximum number of tokens of a sequence, with special tokens; the rest is truncated.
    learning_rate: the peak, reached after warmup_steps; for noam, the factor of the formula.
    schedule: the learning rate after its linear warmup decays with the inverse square root of the step, or to zero at
    the planned end (linear, cosine), or stays constant; noam is the formula of Vaswani et al. (2017).
    warmup_steps: the number of updates over which the learning rate rises.
    optimizer: AdamW or Adamax. adam_beta1, adam_beta2: decay rates of the averages of gradients and of their squares.
    adam_epsilon: added to the optimizer's denominator.
    weight_decay: decoupled from the gradients, as in AdamW.
    clip_norm: gradients are scaled down to this norm; null disables clipping.
    label_smoothing: the probability that is spread over the vocabulary.
    precision: fp32; or bf16, matrix products in bf16 with weights in fp32; auto: the faster of the two on the machine
    that trains, measured in about a second.
    evaluations_per_epoch: the number of dev evaluations in an epoch, evenly spaced.
    evaluate_at: the steps after which dev is evaluated, besides start and end, in place of evaluations_per_epoch.
    patience: stop after this many dev evaluations without improvement.
    dev_sentences: dev sentences to score, from the start of dev.
    """

    epochs: Count | None = None
    max_steps: Count | None = None
    stop_after: Count | None = None
    batch_size: Count
    batch_size_schedule: tuple[BatchSizeFrom, ...] = ()
    batch_unit: Literal["tokens", "characters"] = "tokens"
    micro_batch_size: Count | None = None
    max_length: Length = 256
    learning_rate: Annotated[float, Field(gt=0)]
    schedule: ScheduleName = "inverse-square-root"
    warmup_steps: Count
    optimizer: OptimizerName = "adamw"
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.98
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    label_smoothing: Share = 0.1
    precision: Precision = "fp32"
    evaluations_per_epoch: Count = 1
    evaluate_at: tuple[Count, ...] = ()
    patience: Count | None = None
    dev_sentences: Count = 200

    @property
    def largest_batch_size(self) -> int:
        """The largest batch size of the whole training, which determines its memory."""
        return max(self.batch_size, *(each.batch_size for each in self.batch_size_schedule), 0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.epochs is None and self.max_steps is None:
            raise ValueError("give epochs, max_steps or both")
        _require_ascending("evaluate_at", self.evaluate_at)
        _require_ascending("batch_size_schedule", [each.step for each in self.batch_size_schedule])
        if self.evaluate_at and self.evaluate_at[-1] > (self.max_steps or self.evaluate_at[-1]):
            raise ValueError(f"evaluate_at {self.evaluate_at[-1]} is beyond max_steps {self.max_steps}")
        if self.optimizer == "adamax" and self.weight_decay:
            raise ValueError("optimizer adamax has no decoupled weight decay: leave out weight_decay")
        return self


class ModelTrainingSettings(TrainingSettings):
    """A training of a model's own weights: pretraining or finetuning.

    layer_decay: each layer's learning rate is this fraction of that of the layer above; embeddings are below the
    lowest.
    dropout_schedule: dropout of hidden states from given steps on; the model's own applies before.
    select: the dev metric that selects the checkpoint: BLEU (the default), chrF, likelihood (lowest bits per
    character), score (the main metric of a task with labels), or last (no selection).
    dev_engine: the engine that translates the dev set; models that CTranslate2 does not support, and `train: adapters`,
    use transformers. auto is CTranslate2 where it is installed, on a CPU, for up to 250 million parameters.
    """

    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    dropout_schedule: tuple[DropoutFrom, ...] = ()
    select: SelectName | None = None
    dev_engine: EngineSetting = "auto"

    def dropout_at(self, step: int) -> float | None:
        """The dropout of the update after `step` others; None for the model's own."""
        return next((each.dropout for each in reversed(self.dropout_schedule) if each.step <= step), None)

    @model_validator(mode="after")
    def _selects(self) -> Self:
        _require_ascending("dropout_schedule", [each.step for each in self.dropout_schedule])
        if self.select == "last" and self.patience is not None:
            raise ValueError("`select: last` ignores dev scores, so patience has no effect: set `patience: null`")
        return self


class PretrainSettings(ModelTrainingSettings):
    """A pretraining.

    length_schedule: other values of max_length from later steps on, for which text is cut into examples again (ERNIE 3;
    Sun et al., 2021, section 3.3.2). With it, or with several objectives, each change of the length or the batch size
    ends the running epoch.
    target_sampling: the tokens in the softmax of a batch and its label_smoothing, in place of the whole vocabulary,
    which dev scores always use.
    save_every: the number of updates after which weights are saved each time; systems can start from them
    (pretraining_step).
    schedule_per_objective: with several objectives, whether the learning rate of a batch follows the number of updates
    that its own objective has had, so that each warms up when it joins (ERNIE 2; Sun et al., AAAI 2020).
    """

    length_schedule: tuple[LengthFrom, ...] = ()
    target_sampling: TargetSamplingSettings | None = None
    save_every: Count | None = None
    schedule_per_objective: bool = False

    @property
    def longest(self) -> int:
        """The largest max_length of the whole training."""
        return max(self.max_length, *(each.max_length for each in self.length_schedule), 0)

    @property
    def stages(self) -> list[tuple[int, Self]]:
        """Each step at which the length or the batch size changes, 0 first, with settings without these schedules."""
        sizes = {0: self.batch_size} | {each.step: each.batch_size for each in self.batch_size_schedule}
        lengths = {0: self.max_length} | {each.step: each.max_length for each in self.length_schedule}
        stages, size, length = list[tuple[int, Self]](), self.batch_size, self.max_length
        for step in sorted(sizes | lengths):
            size, length = sizes.get(step, size), lengths.get(step, length)
            constant = {"batch_size_schedule": (), "length_schedule": ()}
            stages.append((step, self.model_copy(update={"batch_size": size, "max_length": length, **constant})))
        return stages

    @model_validator(mode="after")
    def _of_pretraining(self) -> Self:
        _require_ascending("length_schedule", [each.step for each in self.length_schedule])
        if self.length_schedule and self.length_schedule[-1].step >= (self.max_steps or MAX_COUNT):
            raise ValueError(
                f"length_schedule: step {self.length_schedule[-1].step} is not before the end, max_steps "
                f"{self.max_steps}: change earlier, or raise max_steps"
            )
        if self.schedule_per_objective and self.schedule in ("linear", "cosine"):
            raise ValueError(
                f"schedule_per_objective: {self.schedule} needs the number of updates of an objective, which is not "
                "known: write `schedule: noam`, inverse-square-root or constant"
            )
        kind = None if self.target_sampling is None else self.target_sampling.kind
        if kind == "noise-contrastive" and self.label_smoothing:
            raise ValueError("target_sampling noise-contrastive has no probabilities: write `label_smoothing: 0`")
        return self


class AdapterSettings(Settings):
    """Adapters (LoRA, Hu et al. 2022): a trained (alpha / rank) B A is added to each projection W of attention and
    feed-forward layers, and merged into W at the end.

    rank: the number of rows of A and columns of B.
    alpha: the scale of B A, in units of the rank.
    dropout: dropout of the input of A.
    """

    rank: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class FinetuneSettings(ModelTrainingSettings):
    """A finetuning of a model, which may have new embeddings.

    train: the trained parameters: all; new-rows, the embeddings of new tokens; body, all but the embeddings of the
    sides whose vocabulary changes; adapters, with the head that a task of labels has; or that head alone.
    adapters: the adapters of `train: adapters`.
    outer_layers: with `train: all` or body, only so many layers at the bottom and at the top of each stack are trained;
    those between them are frozen. By default all are trained.
    embedding_learning_rate: the peak for the embeddings of the sides whose vocabulary changes; 0 freezes them.
    new_embedding_learning_rate: the peak for the embeddings of new tokens; by default that of the other embeddings.
    rare_tokens: how new embeddings of rare tokens are trained.
    max_train_examples: train on this many pairs or lines, of each direction if there are several, evenly spaced;
    vocabularies are learnt on the whole text.
    resample_subset: whether each seed draws its own max_train_examples.
    shuffled_sources: whether each line is read with the source of another, drawn once.
    monolingual_fraction: the fraction of each batch that is domain text, in systems with `text`. An epoch is one pass
    over the pairs; at 1, over the text.
    """

    train: TrainName = "all"
    adapters: AdapterSettings | None = None
    outer_layers: Annotated[Count | None, UNSET] = None
    embedding_learning_rate: Annotated[float | None, Field(ge=0)] = None
    new_embedding_learning_rate: Annotated[float | None, Field(gt=0), UNSET] = None
    rare_tokens: RareTokenSettings | None = None
    max_train_examples: Count | None = None
    shuffled_sources: bool = False
    resample_subset: bool = False
    monolingual_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5

    @model_validator(mode="after")
    def _of_finetuning(self) -> Self:
        if self.outer_layers is not None and self.train not in ("all", "body"):
            raise ValueError(f"outer_layers needs `train: all` or body, not {self.train}: leave it out")
        if "monolingual_fraction" in self.model_fields_set:
            self.require_share_of_batch()
        return self

    def require_share_of_batch(self) -> None:
        """Raise ValueError if the batch is too small to hold both text and pairs."""
        smallest = min([self.batch_size, *(each.batch_size for each in self.batch_size_schedule)])
        smaller_share = min(self.monolingual_fraction, 1.0 - self.monolingual_fraction) or 1.0
        if round(smaller_share * smallest) < 1:
            raise ValueError(
                f"monolingual_fraction {self.monolingual_fraction:g}: a batch of {smallest} cannot hold both"
            )

    def without_text(self) -> Self:
        """These settings for a system without domain text, to which monolingual_fraction does not apply."""
        share = type(self).model_fields["monolingual_fraction"].default
        fields_set = self.model_fields_set - {"monolingual_fraction"}
        return self.model_construct(_fields_set=fields_set, **{**dict(self), "monolingual_fraction": share})

    @property
    def applied_embedding_learning_rate(self) -> float | None:
        """The peak for the embeddings of the sides whose vocabulary changes; 0 freezes them; None: learning_rate."""
        return 0.0 if self.train == "body" else self.embedding_learning_rate

    @property
    def new_embedding_factor(self) -> float:
        """The updates of new tokens' embeddings, as a multiple of those that their embedding matrix has."""
        if self.new_embedding_learning_rate is None:
            return 1.0
        rate = self.applied_embedding_learning_rate
        return self.new_embedding_learning_rate / (self.learning_rate if rate is None else rate)

    @property
    def freezes_embeddings(self) -> bool:
        """Whether the embeddings of the sides whose vocabulary changes are frozen."""
        return self.train in ("adapters", "head") or self.applied_embedding_learning_rate == 0


class EmbeddingWarmupSettings(ModelTrainingSettings):
    """Training of the new embeddings only, on the domain's text, before finetuning; the body is frozen.

    An epoch is one pass over the text; dev scores are those of the task's dev pairs.

    evaluations: dev evaluations, evenly spaced over max_steps, if that is set and evaluate_at is not; in place of
    evaluations_per_epoch.
    """

    evaluations: Count = 6

    @property
    def finetuning(self) -> FinetuneSettings:
        """The same training as finetuning settings."""
        settings = self.model_dump(exclude={"evaluations"})
        if self.max_steps is not None and not self.evaluate_at:
            count = min(self.evaluations, self.max_steps)
            settings["evaluate_at"] = tuple(self.max_steps * (i + 1) // count for i in range(count))
        return FinetuneSettings(**settings, train="new-rows", monolingual_fraction=1.0)


def _require_ascending(name: str, steps: Sequence[int]) -> None:
    if list(steps) != sorted(set(steps)):
        raise ValueError(f"{name} must increase")
