"""Settings of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from subgraft.config.base import Settings, Share

ScheduleName = Literal["inverse-square-root", "linear", "noam", "cosine", "constant"]
OptimizerName = Literal["adamw", "adamax"]
SelectName = Literal["bleu", "likelihood", "last"]

# Under DeepSpeed a table lies in parts, in copies that only its own optimizer writes.
ROWS_IN_PARTS = "rare_tokens: DeepSpeed cannot hold back single rows of a table; leave out runtime.zero_stage"


class RareTokenSettings(Settings):
    """How new rows are trained whose tokens the task's training text has fewer than `below` times.

    learning_rate_factor: what they take of each update.  pull: towards the row's beginning, as weight decay is towards
    nought; in full for a token that the text lacks, and less and less, to none for one that it has `below` times.
    """

    below: Annotated[int, Field(ge=1)] = 10
    learning_rate_factor: Share = 1.0
    pull: Annotated[float, Field(ge=0)] = 0.0

    @property
    def idle(self) -> bool:
        """Whether these rows are trained as all others."""
        return self.learning_rate_factor == 1.0 and self.pull == 0.0


class DropoutFrom(Settings):
    """The dropout of hidden states from the update on that comes after `step` others."""

    step: Annotated[int, Field(ge=0)]
    dropout: Annotated[float, Field(ge=0, lt=1)]


class BatchSizeFrom(Settings):
    """The batch size from the update on that comes after `step` others."""

    step: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=1)]


class TrainingSettings(Settings):
    """One training: everything that decides its result. Device, threads and workers are `Runtime`.

    batch_size is the global batch, padding included, in units of `batch_unit`: target tokens of the system's own
    vocabulary, or target characters, which are the same for every vocabulary.  batch_size_schedule: other sizes, from
    later steps on.  schedule: how the learning rate goes on after it has warmed up linearly over `warmup_steps`:
    falling with the inverse square root of the step, or to zero at the training's planned end, in a line or as a
    cosine, or not at all; in noam, `learning_rate` is not the peak but the factor of the formula (see
    `training.learning_rates`).
    evaluate_at: the steps after which dev scores are taken, in place of evaluations_per_epoch; the beginning and the
    end always are.
    """

    epochs: Annotated[int, Field(ge=1)] | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None
    batch_size: Annotated[int, Field(ge=1)]
    batch_size_schedule: tuple[BatchSizeFrom, ...] = Field(default=(), exclude_if=lambda given: not given)
    batch_unit: Literal["tokens", "characters"] = "tokens"
    micro_batch_size: Annotated[int, Field(ge=1)] | None = None
    max_length: Annotated[int, Field(ge=4)] = 256
    learning_rate: Annotated[float, Field(gt=0)]
    schedule: ScheduleName = Field(
        default="inverse-square-root", exclude_if=lambda given: given == "inverse-square-root"
    )
    warmup_steps: Annotated[int, Field(ge=1)]
    optimizer: OptimizerName = Field(default="adamw", exclude_if=lambda given: given == "adamw")
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.98
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    label_smoothing: Share = 0.1
    precision: Literal["fp32", "bf16"] = "fp32"
    evaluations_per_epoch: Annotated[int, Field(ge=1)] = 1
    evaluate_at: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(), exclude_if=lambda given: not given)
    patience: Annotated[int, Field(ge=1)] | None = None
    dev_sentences: Annotated[int, Field(ge=1)] = 200

    @property
    def largest_batch_size(self) -> int:
        """Of the whole training: what memory must suffice for."""
        return max(self.batch_size, *(each.batch_size for each in self.batch_size_schedule), 0)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.epochs is None and self.max_steps is None:
            raise ValueError("give epochs, max_steps or both")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _require_ascending("evaluate_at", self.evaluate_at)
        _require_ascending("batch_size_schedule", [each.step for each in self.batch_size_schedule])
        if self.evaluate_at and self.evaluate_at[-1] > (self.max_steps or self.evaluate_at[-1]):
            raise ValueError(f"evaluate_at {self.evaluate_at[-1]} is beyond max_steps {self.max_steps}")
        return self

    @model_validator(mode="after")
    def _decayed_apart_from_gradients(self) -> Self:
        if self.optimizer == "adamax" and self.weight_decay:
            raise ValueError("optimizer adamax has no weight decay apart from gradients: leave out weight_decay")
        return self


class ModelTrainingSettings(TrainingSettings):
    """A training of a model's own weights, which pretraining and finetuning are.

    layer_decay: each layer learns at so much of the rate of the layer above it, embeddings below the lowest.
    dropout_schedule: of hidden states; before its first step the model's own. Dropout of attention and activations
    stays the model's, and so does what its config.json says.  select: what decides which weights are kept, dev BLEU,
    the least dev bits per character, or nothing: the last ones; where not given, BLEU if there are dev scores.
    """

    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, exclude_if=lambda given: given is None
    )
    dropout_schedule: tuple[DropoutFrom, ...] = Field(default=(), exclude_if=lambda given: not given)
    select: SelectName | None = Field(default=None, exclude_if=lambda given: given is None)

    def dropout_at(self, step: int) -> float | None:
        """The dropout of the update that comes after `step` others; None for the model's own."""
        return next((each.dropout for each in reversed(self.dropout_schedule) if each.step <= step), None)

    @model_validator(mode="after")
    def _dropout_in_order(self) -> Self:
        _require_ascending("dropout_schedule", [each.step for each in self.dropout_schedule])
        return self

    @model_validator(mode="after")
    def _patient_with_something(self) -> Self:
        if self.select == "last" and self.patience is not None:
            raise ValueError("select last goes by no dev score, so nothing can end it early: say `patience: null`")
        return self


class FinetuneSettings(ModelTrainingSettings):
    """A finetuning, whose model has new rows.

    embedding_learning_rate: the peak for the tables of the sides whose vocabulary changes, where new rows have further
    to go than the rest of the model, whatever layer_decay says of them; 0 leaves these tables as they begin.
    rare_tokens: how new rows there of rarely met tokens are trained, where not as the others.  pairs: so many of the
    training pairs, evenly spaced, are all there is to train on; vocabularies are learnt on the whole text.
    """

    embedding_learning_rate: Annotated[float | None, Field(ge=0, exclude_if=lambda given: given is None)] = None
    rare_tokens: RareTokenSettings | None = Field(default=None, exclude_if=lambda given: given is None or given.idle)
    pairs: Annotated[int, Field(ge=1)] | None = Field(default=None, exclude_if=lambda given: given is None)


def _require_ascending(name: str, steps: Sequence[int]) -> None:
    if list(steps) != sorted(set(steps)):
        raise ValueError(f"{name} must go up")
