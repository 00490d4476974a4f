"""Target sampling: the softmax of a batch covers only some tokens of a large vocabulary, the candidates.

The loss then depends on the targets of the complete micro-batch, because all workers share the same candidates. Dev
scores always use the complete vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus
from transformers import PreTrainedModel

from subgraft.config.training import NearestTargets, NoiseContrastive, TargetSamplingSettings, UniformTargets
from subgraft.modeling.precision import to_device
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.cross_entropy import linear_cross_entropy, linear_loss
from subgraft.training.objectives.compute.distributed import Workers, gather_rows, logical_or_over_workers
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings, counted_states
from subgraft.training.objectives.compute.interface import ObjectiveLoss
from subgraft.training.objectives.compute.logit_slices import slice_rows


@dataclass(frozen=True)
class SampledBatch:
    """A batch whose targets compete only with candidates.

    Attributes:
        batch: the batch of the objective.
        candidates: ids [C], ascending, including all targets.
        noise: bool [C], which of them are noise samples, for noise-contrastive estimation; None for a softmax.
        weights: float [C], the logarithm of the number of tokens that each represents in the softmax; None if each
            represents itself.
    """

    batch: Any
    candidates: Tensor
    noise: Tensor | None = None
    weights: Tensor | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        counts: Mapping[str, int] = self.batch.counts
        return counts

    @property
    def shape(self) -> tuple[int, int]:
        shape: tuple[int, int] = self.batch.shape
        return shape

    def to(self, device: torch.device | str) -> SampledBatch:
        noise, weights = (None if each is None else to_device(each, device) for each in (self.noise, self.weights))
        return SampledBatch(self.batch.to(device), to_device(self.candidates, device), noise, weights)


class SampledTables(ModelEmbeddings):
    """The model's own embeddings; only a batch's candidates are predicted."""

    def __init__(self, model: PreTrainedModel, batch: SampledBatch) -> None:
        super().__init__(model)
        self._candidates, self._noise, self._weights = batch.candidates, batch.noise, batch.weights

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        decoder, candidates = self._decoder, self._candidates
        assert decoder.output is not None
        hidden, gold = counted_states(states, labels, decoder)
        rows = decoder.output.weight.index_select(0, candidates)
        bias = None if decoder.bias is None else decoder.bias.reshape(-1).index_select(0, candidates)
        classes = torch.searchsorted(candidates, gold)
        if self._noise is not None:
            return linear_noise_contrast(hidden, rows, bias, classes, self._noise, decoder.cap)
        return linear_cross_entropy(hidden, rows, bias, classes, label_smoothing, decoder.cap, self._weights)


class SampledLoss(ObjectiveLoss):
    """A `TokenLoss` or a mixture of such losses, over a batch's candidates if it has some, else over the vocabulary."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.model = loss.model
        self.loss, self.weights = loss, loss.weights

    def forward(self, batch: Any) -> dict[str, Tensor]:
        if not isinstance(batch, SampledBatch):
            return self.loss(batch)  # type: ignore[no-any-return]
        return self.loss.by(SampledTables(self.model, batch), batch.batch)  # type: ignore[no-any-return]


class TargetSampling(ABC):
    """Selects the candidates of a training's batches; a `BatchCallback` of `training.progress`."""

    every: int | None = None

    def __init__(self, model: PreTrainedModel, seed: int) -> None:
        decoder = side(model, "decoder")
        assert decoder.output is not None
        self._output = decoder.output
        self._vocabulary = decoder.output.out_features
        self._seed = seed
        self._counts: list[int] = []

    def prepare(self, batches: Sequence[Any], step: int, workers: Workers) -> list[SampledBatch]:
        """Add candidates, which are equal on all workers, to batches."""
        targets = logical_or_over_workers(torch.stack([self._marks([batch.labels]) for batch in batches]), workers)
        sampled = [
            self._sample_candidates(batch, marks, np.random.default_rng([self._seed, step, index]))
            for index, (batch, marks) in enumerate(zip(batches, targets, strict=True))
        ]
        self._counts = [len(each.candidates) for each in sampled]
        return sampled

    @abstractmethod
    def _sample_candidates(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        """Add candidates to a batch. targets: bool [V], the targets of the complete micro-batch."""

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:  # noqa: B027
        """Do nothing by default."""

    def measured(self) -> dict[str, float]:
        """The average number of candidates of the last update's micro-batches."""
        return {"candidates": sum(self._counts) / max(len(self._counts), 1)}

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Do nothing by default: samples are a function of (seed, step), so there is no state."""

    def _with_samples(self, batch: Any, certain: Tensor, count: int, rng: np.random.Generator) -> SampledBatch:
        """Add to a batch certain candidates, bool [V], and samples of the other tokens, weighted to represent all."""
        others = (~certain).nonzero().flatten()
        if not count or not len(others):
            return SampledBatch(batch, certain.nonzero().flatten())
        count = min(count, len(others))
        weights = torch.full(certain.shape, -math.inf)
        weights[certain] = 0.0
        weights[others[torch.from_numpy(rng.choice(len(others), count, replace=False))]] = math.log(len(others) / count)
        candidates = weights.isfinite().nonzero().flatten()
        return SampledBatch(batch, candidates, weights=weights[candidates])

    def _marks(self, labels: Iterable[Tensor]) -> Tensor:
        """The tokens among the labels, bool [V]."""
        marks = torch.zeros(self._vocabulary, dtype=torch.bool)
        for each in labels:
            marks[each[each != IGNORED]] = True
        return marks


class NearestSampling(TargetSampling):
    """Candidates are the targets and the nearest tokens of each (Zheng et al., EMNLP 2021, algorithm 2).

    With the nearest tokens alone the softmax is biased. With samples of the other tokens, weighted to represent all of
    them, its denominator is unbiased (Mussmann, Levy and Ermon, UAI 2017).
    """

    def __init__(self, settings: NearestTargets, model: PreTrainedModel, seed: int) -> None:
        super().__init__(model, seed)
        self.every = settings.rebuild_every
        self._neighbours = min(settings.neighbours, self._vocabulary)
        self._sample_count = settings.drawn
        self._index = NearestTokens.empty()

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:
        """Find the nearest tokens of the targets of these batches; each worker searches a share of the targets."""
        targets = logical_or_over_workers(self._marks(batch.labels for batch in batches), workers)
        with workers.gathered_parameters():
            self._index = NearestTokens.search(
                self._output.weight.detach(), targets.nonzero().flatten(), self._neighbours, workers
            )

    def _sample_candidates(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        return self._with_samples(batch, targets | self._index.neighbours_of(targets), self._sample_count, rng)

    def state(self) -> dict[str, Tensor]:
        return self._index.tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._index = NearestTokens(**tensors)


class UniformSampling(TargetSampling):
    """Candidates are the targets and uniform samples of the vocabulary."""

    def __init__(self, settings: UniformTargets | NoiseContrastive, model: PreTrainedModel, seed: int) -> None:
        super().__init__(model, seed)
        self._sample_count = min(settings.drawn, self._vocabulary)

    def _sample_candidates(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        return SampledBatch(batch, (targets | self._draw(rng)).nonzero().flatten())

    def _draw(self, rng: np.random.Generator) -> Tensor:
        marks = torch.zeros(self._vocabulary, dtype=torch.bool)
        marks[rng.choice(self._vocabulary, self._sample_count, replace=False)] = True
        return marks


class NoiseSampling(UniformSampling):
    """Noise-contrastive estimation: classify targets against uniform samples."""

    def _sample_candidates(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        noise = self._draw(rng)
        candidates = (targets | noise).nonzero().flatten()
        return SampledBatch(batch, candidates, noise[candidates])


def target_sampling(settings: TargetSamplingSettings, model: PreTrainedModel, seed: int) -> TargetSampling:
    """The configured target sampling."""
    if isinstance(settings, NearestTargets):
        return NearestSampling(settings, model, seed)
    if isinstance(settings, UniformTargets):
        return UniformSampling(settings, model, seed)
    return NoiseSampling(settings, model, seed)


# Output projection and noise-contrastive estimation as one operation (Mnih and Teh, ICML 2012).
#
# A logistic regression separates each target from k tokens of noise, which all targets of a batch share (Zoph et al.,
# NAACL 2016, section 3). Noise is uniform over all V tokens, and the softmax's denominator is approximated by V: then
# the regression's logit is the model's logit less ln k.


def linear_noise_contrast(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, noise: Tensor, cap: float | None = None
) -> Tensor:
    """The loss of N targets among C tokens, summed, in nats.

    Args:
        hidden: states [N, d].
        weight: output projection [C, d].
        bias: [C] or None.
        labels: indices of the targets among the C tokens [N].
        noise: bool [C], which tokens are noise samples.
        cap: c if logits x become c * tanh(x / c).
    """
    return linear_loss(hidden, weight, bias, labels, partial(_loss_and_gradient, noise=noise), cap)


def _loss_and_gradient(logits: Tensor, labels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    is_noise = noise.to(logits.dtype)
    odds = logits - math.log(float(is_noise.sum()))
    gold = odds.gather(1, labels[:, None])
    loss = (softplus(odds) * is_noise).sum() - logsigmoid(gold).sum()
    gradient = odds.sigmoid_().mul_(is_noise)
    gradient.scatter_add_(1, labels[:, None], -(-gold).sigmoid())
    return loss, gradient


# The nearest tokens of a token: those whose rows of a table have the largest inner products with its row.
#
# The search is exact, by products of blocks of rows with the complete table, and only for the requested tokens: to find
# the neighbours of all tokens of a large vocabulary takes longer than hundreds of steps save
# (benchmarks/target_sampling.py). An index over the table (faiss) took two to three times as long for the same result.


@dataclass(frozen=True)
class NearestTokens:
    """Tokens [m], ascending, and the nearest tokens of each [m, k], unordered."""

    tokens: Tensor
    neighbours: Tensor

    @classmethod
    def empty(cls) -> NearestTokens:
        """An empty index."""
        return cls(torch.zeros(0, dtype=torch.int32), torch.zeros(0, 0, dtype=torch.int32))

    @classmethod
    def search(cls, table: Tensor, tokens: Tensor, count: int, workers: Workers) -> NearestTokens:
        """The `count` nearest tokens of each of the tokens [m], by embeddings [V, d].

        Every worker searches a share of the tokens. All workers get the same result, to the bit, on any device.
        """
        local_tokens = tokens[workers.rank :: workers.world].to(table.device)
        neighbours = gather_rows(nearest(table, local_tokens, count).int(), len(tokens), workers.device)
        return cls(tokens.int(), neighbours.cpu())

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "neighbours": self.neighbours}

    def neighbours_of(self, marks: Tensor) -> Tensor:
        """The nearest tokens, bool [V], of marked tokens, bool [V]. Raises ValueError for a token outside the index."""
        is_indexed = torch.zeros_like(marks)
        is_indexed[self.tokens] = True
        if bool((marks & ~is_indexed).any()):
            raise ValueError("a target whose nearest tokens were not searched")
        is_neighbour = torch.zeros_like(marks)
        is_neighbour[self.neighbours[marks[self.tokens]].flatten()] = True
        return is_neighbour


@torch.no_grad()
def nearest(table: Tensor, tokens: Tensor, count: int) -> Tensor:
    """The `count` rows of a table [V, d] with the largest inner products with each token's row: [m, count]."""
    blocks = torch.split(tokens, slice_rows(table.shape[0], table.shape[1], table.is_cuda))
    neighbours = [(table[block] @ table.T).topk(count, sorted=False).indices for block in blocks]
    return torch.cat(neighbours) if neighbours else torch.zeros(0, count, dtype=torch.long)
