"""Next-sentence prediction: whether the second of two segments follows the first (Devlin et al. 2019, section 3.1, task
2), predicted from the pooled first state in addition to hidden tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchPlan
from subgraft.modeling.next_sentence import next_sentence_logits
from subgraft.modeling.precision import autocast
from subgraft.training.objectives.compute.distributed import sums_over_batches
from subgraft.training.objectives.compute.embedding_view import EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.compute.interface import States
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackLoss
from subgraft.training.objectives.compute.whole_examples import Batched

# The name of the loss and of its count; its weight next to that of the tokens is that of BERT.
NEXT_SENTENCE = "next_sentence"
WEIGHTS: Mapping[str, float] = {NEXT_SENTENCE: 1.0}
ACCURACY = "next_sentence_accuracy"


@dataclass(frozen=True)
class PairExample(StackExample):
    """Two segments. second: the start of the second segment.  follows: whether it follows the first."""

    second: int
    follows: bool

    @property
    def types(self) -> list[int]:
        return [0] * self.second + [1] * (len(self.tokens) - self.second)


@dataclass(frozen=True)
class SegmentBatch(StackBatch):
    """A batch of two segments. token_type_ids [B, T]: 0 in the first, 1 in the second."""

    token_type_ids: Tensor

    @property
    def inputs(self) -> dict[str, Tensor]:
        return {**super().inputs, "token_type_ids": self.token_type_ids}


@dataclass(frozen=True)
class NextSentenceBatch(SegmentBatch):
    """A batch of two segments. next_sentence_label [B]: transformers', 0 where the second segment follows."""

    next_sentence_label: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {**super().counts, NEXT_SENTENCE: len(self.next_sentence_label)}


def next_sentence_loss(model: PreTrainedModel, states: States, batch: NextSentenceBatch) -> dict[str, Tensor]:
    """The cross entropy of a batch's second segments, summed, in nats."""
    logits = next_sentence_logits(model, states.top)
    return {NEXT_SENTENCE: cross_entropy(logits.float(), batch.next_sentence_label, reduction="sum")}


class NextSentenceLoss(StackLoss):
    """The loss of hidden tokens and that of the next sentence."""

    weights: Mapping[str, float] = {"loss": 1.0, **WEIGHTS}

    def used(self) -> Iterable[nn.Parameter]:
        return self.parameters()

    def by(self, embedding_view: EmbeddingView, batch: NextSentenceBatch) -> dict[str, Tensor]:
        states = self.states(batch, embedding_view)
        tokens = embedding_view.cross_entropy(states.top, batch.labels, self.label_smoothing)
        return {"loss": tokens, **next_sentence_loss(self.model, states, batch)}


def accuracy_of(
    model: PreTrainedModel, held_out: Batched, settings: TrainingSettings
) -> Callable[[], dict[str, float]]:
    """A function that computes the accuracy of next-sentence prediction on held-out pairs, in per cent."""
    plan = BatchPlan(np.minimum(held_out.lengths, settings.batch_size), settings.batch_size, seed=0)
    loss = NextSentenceLoss(model)

    @torch.no_grad()
    def accuracy() -> dict[str, float]:
        device = next(model.parameters()).device

        def correct_and_total(indices: np.ndarray) -> tuple[float, float]:
            batch = held_out.batch(indices, 0).to(device)
            with autocast(device, settings.precision):
                states = loss.states(batch, ModelEmbeddings(model)).top
                logits = next_sentence_logits(model, states)
            return float((logits.argmax(dim=1) == batch.next_sentence_label).sum()), float(len(indices))

        correct, count = sums_over_batches(plan.epoch(0), correct_and_total, device, count=2)
        return {ACCURACY: 100 * correct / count}

    return accuracy
