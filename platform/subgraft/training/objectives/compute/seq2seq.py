"""The parts that objectives of encoder-decoders share: examples, batches, states, loss, and the generator's view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat
from subgraft.modeling.sides import decoder_states_from_memory, encoder_states
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.compute.interface import (
    Body,
    ExampleData,
    Examples,
    GeneratorView,
    LastWeights,
    PaddedBatch,
    TokenLoss,
    pad,
    pad_with_mask,
)


@dataclass(frozen=True)
class Example:
    """One training example.

    Attributes:
        source: the encoder's input, with special tokens.
        target: the labels, with special tokens.
        start: the first input of the decoder.
        source_body: the number of tokens of the source, without special tokens.
        target_body: the number of tokens of the target, without special tokens.
        source_begins: the number of special tokens before the source.
        target_begins: the number of special tokens before the target.
    """

    source: list[int]
    target: list[int]
    start: int
    source_body: int
    target_body: int
    source_begins: int = 0
    target_begins: int = 0

    @classmethod
    def of(cls, source: Sequence[int], target: Sequence[int], form: SequenceFormat) -> Example:
        """An example of two bodies in the sequence format of the model's family."""
        beginning = [] if form.target_beginning is None else [form.target_beginning]
        return cls(
            [*form.source_beginning, *source, *form.source_ending],
            [*beginning, *target, *form.target_ending],
            form.start,
            len(source),
            len(target),
            len(form.source_beginning),
            len(beginning),
        )


@dataclass(frozen=True)
class Seq2SeqBatch(PaddedBatch):
    """A padded batch: input_ids, attention_mask [B, S]; decoder_input_ids, labels [B, T], labels padded with -100."""

    input_ids: Tensor
    attention_mask: Tensor
    decoder_input_ids: Tensor
    labels: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), max(self.input_ids.shape[1], self.labels.shape[1])


class Seq2SeqData(ExampleData[Example]):
    """Examples in padded batches: the data of a training."""

    def __init__(self, examples: Examples[Example], source_pad: int, target_pad: int) -> None:
        self._examples = examples
        self._pads = (source_pad, target_pad)

    def batch(self, indices: np.ndarray, epoch: int) -> Seq2SeqBatch:
        return collate([self._examples.example(int(index), epoch) for index in indices], *self._pads)


def collate(examples: Sequence[Example], source_pad: int, target_pad: int) -> Seq2SeqBatch:
    """Pad examples on the right; each side with its own padding id."""
    inputs = pad_with_mask([example.source for example in examples], source_pad)
    decoder_inputs = pad([[example.start, *example.target[:-1]] for example in examples], target_pad)
    return Seq2SeqBatch(*inputs, decoder_inputs, pad([example.target for example in examples], IGNORED))


class Seq2SeqStates:
    """The states of a batch: the encoder's, `memory` [B, S, d], and the decoder's, `top` [B, T, d]."""

    def __init__(
        self, model: PreTrainedModel, batch: Seq2SeqBatch, embedding_view: EmbeddingView, memory: Tensor | None = None
    ) -> None:
        self._model, self._batch, self._embedding_view, self._memory = model, batch, embedding_view, memory

    @cached_property
    def memory(self) -> Tensor:
        if self._memory is not None:
            return self._memory
        inputs: dict[str, Any] = self._embedding_view.read("encoder", self._batch.input_ids)
        return encoder_states(self._model, attention_mask=self._batch.attention_mask, **inputs)

    @cached_property
    def top(self) -> Tensor:
        memory, mask = self.memory, self._batch.attention_mask
        inputs: dict[str, Any] = self._embedding_view.read("decoder", self._batch.decoder_input_ids)
        return decoder_states_from_memory(self._model, memory, mask, **inputs)

    def of(self, name: SideName) -> Tensor:
        return self.memory if name == "encoder" else self.top

    def of_original(self, batch: Seq2SeqBatch) -> Seq2SeqStates:
        memory = None if self._embedding_view.extends("encoder") else self.memory
        return Seq2SeqStates(self._model, batch, ModelEmbeddings(self._model), memory)


class Seq2SeqLoss(TokenLoss):
    """The loss of an encoder-decoder, over target tokens."""

    def states(self, batch: Seq2SeqBatch, embedding_view: EmbeddingView) -> Seq2SeqStates:
        return Seq2SeqStates(self.model, batch, embedding_view)


def token_loss(model: PreTrainedModel, batch: Seq2SeqBatch, label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of the model's output and the labels that are not IGNORED, summed, in nats."""
    return ModelEmbeddings(model).cross_entropy(top_states(model, batch), batch.labels, label_smoothing)


def top_states(model: PreTrainedModel, batch: Seq2SeqBatch) -> Tensor:
    """The decoder's top hidden states [B, T, d]."""
    return Seq2SeqStates(model, batch, ModelEmbeddings(model)).top


class Seq2SeqView(GeneratorView[Example]):
    """The view that trains generators for either side. No tokens are hidden."""

    def __init__(self, examples: Examples[Example], name: SideName, padding: tuple[int, int]) -> None:
        self.side = name
        self.causal = name == "decoder"
        self._examples = examples
        self._padding = padding

    @property
    def lengths(self) -> np.ndarray:
        return self._examples.lengths

    def original(self, index: int, epoch: int) -> Example:
        return self._examples.example(index, epoch)

    def body(self, example: Example) -> Body:
        if self.side == "decoder":
            start, size = example.target_begins, example.target_body
            return Body(example.target[start : start + size], start, len(example.target) - size)
        start, size = example.source_begins, example.source_body
        return Body(example.source[start : start + size], start, len(example.source) - size)

    def rebuild(self, example: Example, body: list[int]) -> Example:
        if self.side == "decoder":
            start, end = example.target_begins, example.target_begins + example.target_body
            target = example.target[:start] + body + example.target[end:]
            return replace(example, target=target, target_body=len(body))
        start, end = example.source_begins, example.source_begins + example.source_body
        source = example.source[:start] + body + example.source[end:]
        return replace(example, source=source, source_body=len(body))

    def collate(self, examples: Sequence[Example]) -> Seq2SeqBatch:
        return collate(examples, *self._padding)

    def states(self, model: PreTrainedModel, batch: Seq2SeqBatch, embedding_view: EmbeddingView) -> Seq2SeqStates:
        return Seq2SeqStates(model, batch, embedding_view)


class Seq2SeqObjective(Seq2SeqData, LastWeights):
    """An objective of an encoder-decoder; the last weights are selected. truncated: number of sentences."""

    def __init__(self, bundle: Bundle, examples: Examples[Example], truncated: int = 0) -> None:
        super().__init__(examples, *bundle.padding)
        self.truncated = truncated
        self._bundle = bundle

    def loss(self, label_smoothing: float) -> Seq2SeqLoss:
        return Seq2SeqLoss(self._bundle.model, label_smoothing)

    def view(self, name: SideName) -> Seq2SeqView:
        return Seq2SeqView(self._examples, name, self._bundle.padding)
