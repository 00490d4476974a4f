"""Evaluation on examples that are not truncated: batches by length, and the likelihood of their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.progress import ProgressCallback
from subgraft.config.training import Precision
from subgraft.data.text.batches import BatchPlan
from subgraft.modeling.precision import autocast
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.cross_entropy import linear_log_likelihood
from subgraft.training.objectives.compute.distributed import sums_over_batches
from subgraft.training.objectives.compute.embedding_view import IGNORED, counted_states

# The number of tokens of a batch, including padding, that fit into a few gigabytes of GPU memory.
BATCH_TOKENS = 4000


class Batched(Protocol):
    """Examples in batches. lengths: the cost of each in a batch [n]."""

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...


class WholeExamples:
    """The examples that fit into the model's positions.

    indices: the indices of these among all examples [m].
    """

    def __init__(self, examples: Batched, whole: np.ndarray, batch_size: int) -> None:
        """whole: which examples are not truncated [n].  batch_size: the maximum cost of a batch."""
        self.indices = np.flatnonzero(whole)
        self._examples = examples
        self._plan = BatchPlan(examples.lengths[self.indices], batch_size, seed=0)

    def batches(self, device: torch.device) -> Iterator[tuple[np.ndarray, Any]]:
        """Batches with the indices of their examples, ordered by length."""
        for batch in self._plan.epoch(0):
            indices = self.indices[batch]
            yield indices, self._batch(indices, device)

    @torch.no_grad()
    def total(self, loss: Callable[[Any], Tensor], device: torch.device, precision: Precision) -> float:
        """The sum of the loss over all batches, of which each worker computes its share."""

        def value(batch: np.ndarray) -> tuple[float]:
            loaded = self._batch(self.indices[batch], device)
            with autocast(device, precision):
                return (float(loss(loaded)),)

        return sums_over_batches(self._plan.epoch(0), value, device)[0]

    def nats(
        self,
        model: PreTrainedModel,
        token_nats: Callable[[Any], Tensor],
        progress: ProgressCallback | None = None,
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The index of each example and the negative log-likelihoods of its labels, ordered by length.

        Args:
            model: the model, which is set to evaluation mode.
            token_nats: returns the nats of a batch's labels that are not IGNORED [N].
            progress: called with (done, total, unit).
        """
        model.train(False)
        done = 0
        for indices, batch in self.batches(next(model.parameters()).device):
            with torch.inference_mode():
                nats = token_nats(batch).double().cpu().numpy()
            lengths = (batch.labels != IGNORED).sum(dim=1).tolist()
            yield from zip(indices.tolist(), np.split(nats, np.cumsum(lengths)[:-1]), strict=True)
            done += len(indices)
            if progress is not None:
                progress(done, len(self.indices), "sentences")

    def _batch(self, indices: np.ndarray, device: torch.device) -> Any:
        return self._examples.batch(indices, 0).to(device)


def label_nats(model: PreTrainedModel, top: Tensor, labels: Tensor) -> Tensor:
    """The negative log-likelihood of each label [B, T] that is not IGNORED, in nats and in fp32 [N].

    top: the states [B, T, d] from which labels are predicted.
    """
    decoder = side(model, "decoder")
    assert decoder.output is not None
    states, gold = counted_states(top, labels, decoder)
    weight, bias = decoder.output.weight, None if decoder.bias is None else decoder.bias.reshape(-1)
    likelihood, _ = linear_log_likelihood(states, weight, bias, gold, cap=decoder.cap)
    return -likelihood
