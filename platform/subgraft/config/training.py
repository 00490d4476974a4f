"""Settings of a model and of its training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Settings, Share
from subgraft.config.objectives import Architecture


class ModelSettings(Settings):
    """Size of a Transformer; the vocabularies' sizes come on top.

    A bert is pretrained as an encoder, of encoder_layers. The encoder-decoder made from it begins with its weights on
    both sides, so decoder_layers must be as many.
    """

    family: Literal["marian", "mbart", "bert"] = "marian"
    d_model: Annotated[int, Field(ge=8)]
    encoder_layers: Annotated[int, Field(ge=1)]
    decoder_layers: Annotated[int, Field(ge=1)]
    attention_heads: Annotated[int, Field(ge=1)]
    ffn_dim: Annotated[int, Field(ge=8)]
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    activation_dropout: Share = 0.0
    max_positions: Annotated[int, Field(ge=16)] = 512

    @property
    def architecture(self) -> Architecture:
        """What is pretrained: which objectives it bears."""
        return "encoder" if self.family == "bert" else "encoder-decoder"

    @property
    def has_language_codes(self) -> bool:
        """Whether texts end in their language."""
        return self.family == "mbart"

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelSettings:
        if self.d_model % self.attention_heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by attention_heads {self.attention_heads}")
        return self

    @model_validator(mode="after")
    def _both_sides_of_a_bert_alike(self) -> ModelSettings:
        if self.family == "bert" and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"a bert gives its layers to both sides: encoder_layers {self.encoder_layers} and "
                f"decoder_layers {self.decoder_layers} must be equal"
            )
        if self.family == "bert" and self.activation_dropout:
            raise ValueError("a bert has no activation_dropout")
        return self


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


class TrainingSettings(Settings):
    """One training: everything that decides its result. Device, threads and workers are `Runtime`.

    batch_size is the global batch, padding included, in units of `batch_unit`: target tokens of the row's own
    vocabulary, or target characters, which are the same for every vocabulary. The learning rate warms up linearly over
    `warmup_steps` and then falls with the inverse square root of the step. embedding_learning_rate: its peak for the
    tables of the sides whose vocabulary changes, where new rows have further to go than the rest of the model; 0 leaves
    these tables as they begin.  rare_tokens: how new rows there of rarely met tokens are trained, where not as the
    others.
    evaluate_at: the steps after which dev scores are taken, in place of evaluations_per_epoch; the beginning and the
    end always are.  pairs: so many of the training pairs, evenly spaced, are all there is to train on; vocabularies
    are learnt on the whole text.
    """

    epochs: Annotated[int, Field(ge=1)] | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None
    batch_size: Annotated[int, Field(ge=1)]
    batch_unit: Literal["tokens", "characters"] = "tokens"
    micro_batch_size: Annotated[int, Field(ge=1)] | None = None
    max_length: Annotated[int, Field(ge=4)] = 256
    learning_rate: Annotated[float, Field(gt=0)]
    embedding_learning_rate: Annotated[float | None, Field(ge=0, exclude_if=lambda given: given is None)] = None
    rare_tokens: RareTokenSettings | None = Field(default=None, exclude_if=lambda given: given is None or given.idle)
    warmup_steps: Annotated[int, Field(ge=1)]
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
    pairs: Annotated[int, Field(ge=1)] | None = Field(default=None, exclude_if=lambda given: given is None)

    @model_validator(mode="after")
    def _bounded(self) -> TrainingSettings:
        if self.epochs is None and self.max_steps is None:
            raise ValueError("give epochs, max_steps or both")
        return self

    @model_validator(mode="after")
    def _evaluated_in_order(self) -> TrainingSettings:
        if list(self.evaluate_at) != sorted(set(self.evaluate_at)):
            raise ValueError("evaluate_at must go up")
        if self.evaluate_at and self.evaluate_at[-1] > (self.max_steps or self.evaluate_at[-1]):
            raise ValueError(f"evaluate_at {self.evaluate_at[-1]} is beyond max_steps {self.max_steps}")
        return self
