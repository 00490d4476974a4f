"""The parts that objectives of single-stack models (encoder-only or decoder-only) share: examples, batches, loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.modeling.families import family_of
from subgraft.modeling.next_sentence import next_sentence_parameters
from subgraft.modeling.sides import stack_states
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.compute.interface import (
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
class StackExample:
    """Input tokens, and the label that is predicted from the state of each, or IGNORED."""

    tokens: list[int]
    labels: list[int]


@dataclass(frozen=True)
class StackBatch(PaddedBatch):
    """A padded batch: input_ids, attention_mask, labels [B, T], labels IGNORED where nothing is predicted.

    forwards: whether each token may only see earlier ones.
    """

    forwards: ClassVar[bool] = False

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), self.labels.shape[1]

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The stack's inputs besides the embeddings of `input_ids`."""
        return {"attention_mask": self.attention_mask}


def collate(examples: Sequence[StackExample], padding: int) -> StackBatch:
    """Pad examples on the right."""
    inputs = pad_with_mask([example.tokens for example in examples], padding)
    return StackBatch(*inputs, pad([example.labels for example in examples], IGNORED))


class StackStates:
    """The top states of a batch [B, T, d]. The stack reads and predicts with the embeddings of the decoder side."""

    def __init__(self, model: PreTrainedModel, batch: StackBatch, embedding_view: EmbeddingView) -> None:
        self._model, self._batch, self._embedding_view = model, batch, embedding_view

    @cached_property
    def top(self) -> Tensor:
        inputs = self._embedding_view.read("decoder", self._batch.input_ids)
        forwards_inputs = family_of(self._model).forwards_inputs if self._batch.forwards else {}
        return stack_states(self._model, layer=None, **self._batch.inputs, **inputs, **forwards_inputs)

    def of(self, name: SideName) -> Tensor:
        del name
        return self.top

    def of_original(self, batch: StackBatch) -> Self:
        return type(self)(self._model, batch, ModelEmbeddings(self._model))


class StackLoss(TokenLoss):
    """The loss of a single-stack model, over the tokens to predict.

    forwards: whether tokens in its batches may only see earlier ones.
    """

    forwards: ClassVar[bool] = False

    def used(self) -> Iterable[nn.Parameter]:
        """All parameters except a head for next sentences and layers that only batches of the other direction use."""
        other_direction = family_of(self.model).unused_parameters(self.model, forwards=self.forwards)
        unused = {id(parameter) for parameter in (*next_sentence_parameters(self.model), *other_direction)}
        return [parameter for parameter in self.parameters() if id(parameter) not in unused]

    def states(self, batch: StackBatch, embedding_view: EmbeddingView) -> StackStates:
        return StackStates(self.model, batch, embedding_view)


class StackObjective(ExampleData[StackExample], LastWeights):
    """An objective of a single-stack model; the last weights are selected.

    view: makes the view that trains generators, from the examples and their padding.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        examples: Examples[StackExample],
        padding: int,
        view: Callable[[Examples[StackExample], int], StackView],
    ) -> None:
        self._model, self._examples, self._padding, self._view = model, examples, padding, view

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self.collate([self._examples.example(int(index), epoch) for index in indices])

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return collate(examples, self._padding)

    def loss(self, label_smoothing: float) -> StackLoss:
        return StackLoss(self._model, label_smoothing)

    def view(self, name: SideName) -> StackView:
        del name
        return self._view(self._examples, self._padding)


class StackView(GeneratorView[StackExample]):
    """The base of views of single-stack models; by default no tokens are hidden."""

    side: SideName = "decoder"

    def __init__(self, examples: Examples[StackExample], padding: int) -> None:
        self._examples, self._padding = examples, padding

    @property
    def lengths(self) -> np.ndarray:
        return self._examples.lengths

    def original(self, index: int, epoch: int) -> StackExample:
        return self._examples.example(index, epoch)

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return collate(examples, self._padding)

    def states(self, model: PreTrainedModel, batch: StackBatch, embedding_view: EmbeddingView) -> StackStates:
        return StackStates(model, batch, embedding_view)
