"""Examples of which a model takes all tokens: batches by length, and the negative log-likelihood of their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.training import Precision
from subgraft.data.text.batches import BatchPlan
from subgraft.modeling.precision import autocast
from subgraft.modeling.sides import side
from subgraft.training.objectives.dev_sharding import sums_over_batches
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.log_likelihood import linear_log_likelihood

# The tokens of a batch, padding included: what a GPU of a few gigabytes bears.
BATCH_TOKENS = 4000


class Batched(Protocol):
    """Examples in batches; `lengths` is what each costs in one [n]."""

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...


class WholeExamples:
    """Those of some examples that lose nothing to the model's positions.

    places: where they are among all [m].
    """

    def __init__(self, examples: Batched, whole: np.ndarray, batch_size: int) -> None:
        """whole: which examples lose nothing [n].  batch_size: what a batch may cost."""
        self.places = np.flatnonzero(whole)
        self._examples = examples
        self._plan = BatchPlan(examples.lengths[self.places], batch_size, seed=0)

    def batches(self, device: torch.device) -> Iterator[tuple[np.ndarray, Any]]:
        """By length, not in order: places among all examples, and the batch of these."""
        for chosen in self._plan.epoch(0):
            places = self.places[chosen]
            yield places, self._batch(places, device)

    @torch.no_grad()
    def total(self, loss: Callable[[Any], Tensor], device: torch.device, precision: Precision) -> float:
        """The sum of a batch's loss over all batches, of which each worker computes its share."""

        def value(chosen: np.ndarray) -> tuple[float]:
            batch = self._batch(self.places[chosen], device)
            with autocast(device, precision):
                return (float(loss(batch)),)

        return sums_over_batches(self._plan.epoch(0), value, device)[0]

    def nats(
        self,
        model: PreTrainedModel,
        token_nats: Callable[[Any], Tensor],
        progress: Callable[[int, int, str], None] | None = None,
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The place of each example, and the negative log-likelihood of its labels; by length, not in order.

        token_nats: of each label of a batch that counts [N], example after example.
        """
        model.train(False)
        done = 0
        for places, batch in self.batches(next(model.parameters()).device):
            with torch.inference_mode():
                nats = token_nats(batch).double().cpu().numpy()
            lengths = (batch.labels != IGNORED).sum(dim=1).tolist()
            yield from zip(places.tolist(), np.split(nats, np.cumsum(lengths)[:-1]), strict=True)
            done += len(places)
            if progress is not None:
                progress(done, len(self.places), "sentences")

    def _batch(self, places: np.ndarray, device: torch.device) -> Any:
        return self._examples.batch(places, 0).to(device)


def label_nats(model: PreTrainedModel, top: Tensor, labels: Tensor) -> Tensor:
    """The negative log-likelihood of each label that counts, in nats and in fp32 [N], example after example.

    top: states that labels [B, T] are predicted from [B, T, d].
    """
    decoder = side(model, "decoder")
    assert decoder.output is not None
    counted = labels != IGNORED
    states, labels = top[counted], labels[counted]
    if decoder.transform is not None:
        states = decoder.transform(states)
    weight, bias = decoder.output.weight, None if decoder.bias is None else decoder.bias.reshape(-1)
    likelihood, _ = linear_log_likelihood(states, weight, bias, labels)
    return -likelihood
