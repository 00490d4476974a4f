"""Target sampling: the softmax of a batch covers only some tokens of a large vocabulary, the candidates.

The loss then depends on the targets of the whole micro-batch, over all workers, which share the same candidates. Dev
scores always use the whole vocabulary.
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
from subgraft.modeling.sides import side
from subgraft.training.objectives.cross_entropy import linear_cross_entropy, linear_loss
from subgraft.training.objectives.distributed import Workers, gathered, marked_anywhere
from subgraft.training.objectives.embedding_view import IGNORED, ModelEmbeddings, counted_states
from subgraft.training.objectives.logit_slices import slice_rows
from subgraft.training.objectives.objective import ObjectiveLoss


@dataclass(frozen=True)
class SampledBatch:
    """A batch whose targets compete only with candidates.

    Attributes:
        batch: the batch of the objective.
        candidates: ids [C], ascending, including all targets.
        noise: bool [C], which of them are noise samples, for noise-contrastive estimation; None for a softmax.
        weights: float [C], the logarithm of the number of tokens that each represents in the softmax; None: one each.
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
        noise, weights = (None if each is None else each.to(device) for each in (self.noise, self.weights))
        return SampledBatch(self.batch.to(device), self.candidates.to(device), noise, weights)


class SampledTables(ModelEmbeddings):
    """The model's own embeddings; only a batch's candidates are predicted."""

    def __init__(self, model: PreTrainedModel, batch: SampledBatch) -> None:
        super().__init__(model)
        self._candidates, self._noise, self._weights = batch.candidates, batch.noise, batch.weights

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        decoder, chosen = self._decoder, self._candidates
        assert decoder.output is not None
        picked, gold = counted_states(states, labels, decoder)
        rows = decoder.output.weight.index_select(0, chosen)
        bias = None if decoder.bias is None else decoder.bias.reshape(-1).index_select(0, chosen)
        places = torch.searchsorted(chosen, gold)
        if self._noise is not None:
            return linear_noise_contrast(picked, rows, bias, places, self._noise, decoder.cap)
        return linear_cross_entropy(picked, rows, bias, places, label_smoothing, decoder.cap, self._weights)


class SampledLoss(ObjectiveLoss):
    """A `TokenLoss` or a mixture of them, over a batch's candidates if it has some, else over the vocabulary."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.model = loss.model
        self.loss, self.weights = loss, loss.weights

    def forward(self, batch: Any) -> dict[str, Tensor]:
        if not isinstance(batch, SampledBatch):
            return self.loss(batch)  # type: ignore[no-any-return]
        return self.loss.by(SampledTables(self.model, batch), batch.batch)  # type: ignore[no-any-return]


class TargetSampling(ABC):
    """Selects the candidates of a training's batches; a `Preparation` of `training.progress`."""

    every: int | None = None

    def __init__(self, model: PreTrainedModel, seed: int) -> None:
        decoder = side(model, "decoder")
        assert decoder.output is not None
        self._output = decoder.output
        self._vocabulary = decoder.output.out_features
        self._seed = seed
        self._counts: list[int] = []

    def prepare(self, batches: Sequence[Any], step: int, workers: Workers) -> list[SampledBatch]:
        """The batches with candidates, which are equal on all workers."""
        targets = marked_anywhere(torch.stack([self._marks([batch.labels]) for batch in batches]), workers)
        sampled = [
            self._sampled(batch, marks, np.random.default_rng([self._seed, step, place]))
            for place, (batch, marks) in enumerate(zip(batches, targets, strict=True))
        ]
        self._counts = [len(each.candidates) for each in sampled]
        return sampled

    @abstractmethod
    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        """A batch with candidates. targets: bool [V], those of the whole micro-batch."""

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:  # noqa: B027
        """By default nothing is done."""

    def measured(self) -> dict[str, float]:
        """The average number of candidates of the last update's micro-batches."""
        return {"candidates": sum(self._counts) / max(len(self._counts), 1)}

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027
        """By default there is no state: samples are a function of (seed, step)."""

    def _with_drawn(self, batch: Any, certain: Tensor, count: int, rng: np.random.Generator) -> SampledBatch:
        """The batch with certain candidates, bool [V], and some of the others, each of which counts for several."""
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
        """Bool [V], the tokens among the labels."""
        marks = torch.zeros(self._vocabulary, dtype=torch.bool)
        for each in labels:
            marks[each[each != IGNORED]] = True
        return marks


class NearestSampling(TargetSampling):
    """Candidates are the targets and the nearest tokens of each (Zheng et al., EMNLP 2021, algorithm 2).

    The nearest tokens alone give a biased softmax. With samples of the other tokens, weighted to represent all of them,
    its denominator is unbiased (Mussmann, Levy and Ermon, UAI 2017).
    """

    def __init__(self, settings: NearestTargets, model: PreTrainedModel, seed: int) -> None:
        super().__init__(model, seed)
        self.every = settings.rebuild_every
        self._neighbours = min(settings.neighbours, self._vocabulary)
        self._drawn = settings.drawn
        self._index = NearestTokens.none()

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:
        """Find the nearest tokens of the targets of these batches; each worker searches a share of the targets."""
        targets = marked_anywhere(self._marks(batch.labels for batch in batches), workers)
        with workers.gathered_parameters():
            self._index = NearestTokens.searched(
                self._output.weight.detach(), targets.nonzero().flatten(), self._neighbours, workers
            )

    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        return self._with_drawn(batch, targets | self._index.around(targets), self._drawn, rng)

    def state(self) -> dict[str, Tensor]:
        return self._index.tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._index = NearestTokens(**tensors)


class UniformSampling(TargetSampling):
    """Candidates are the targets and uniform samples of the vocabulary."""

    def __init__(self, settings: UniformTargets | NoiseContrastive, model: PreTrainedModel, seed: int) -> None:
        super().__init__(model, seed)
        self._drawn = min(settings.drawn, self._vocabulary)

    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        return SampledBatch(batch, (targets | self._draw(rng)).nonzero().flatten())

    def _draw(self, rng: np.random.Generator) -> Tensor:
        marks = torch.zeros(self._vocabulary, dtype=torch.bool)
        marks[rng.choice(self._vocabulary, self._drawn, replace=False)] = True
        return marks


class NoiseSampling(UniformSampling):
    """Noise-contrastive estimation: classify targets against uniform samples."""

    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
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

    hidden [N, d], weight [C, d], bias [C] or None, labels [N]; noise [C] bool, the noise samples.
    """
    return linear_loss(hidden, weight, bias, labels, partial(_loss_and_gradient, noise=noise), cap)


def _loss_and_gradient(logits: Tensor, labels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    drawn = noise.to(logits.dtype)
    odds = logits - math.log(float(drawn.sum()))
    gold = odds.gather(1, labels[:, None])
    loss = (softplus(odds) * drawn).sum() - logsigmoid(gold).sum()
    gradient = odds.sigmoid_().mul_(drawn)
    gradient.scatter_add_(1, labels[:, None], -(-gold).sigmoid())
    return loss, gradient


# The nearest tokens of some tokens: those whose rows of a table have the largest inner products with theirs.
#
# The search is exact, by products of blocks of rows with the whole table, and only for the requested tokens:
# neighbours of all tokens of a large vocabulary cost more than hundreds of steps save
# (benchmarks/target_sampling.py). An index over the table (faiss) took two to three times as long for the same result.


@dataclass(frozen=True)
class NearestTokens:
    """Tokens [m], ascending, and the nearest tokens of each [m, k], unordered."""

    tokens: Tensor
    neighbours: Tensor

    @classmethod
    def none(cls) -> NearestTokens:
        """An empty index."""
        return cls(torch.zeros(0, dtype=torch.int32), torch.zeros(0, 0, dtype=torch.int32))

    @classmethod
    def searched(cls, table: Tensor, tokens: Tensor, count: int, workers: Workers) -> NearestTokens:
        """The `count` nearest tokens of each of the tokens [m], by embeddings [V, d].

        Every worker searches a share of the tokens. All workers get the same result, to the bit, on any device.
        """
        own = tokens[workers.rank :: workers.world].to(table.device)
        neighbours = gathered(nearest(table, own, count).int(), len(tokens), workers.device)
        return cls(tokens.int(), neighbours.cpu())

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "neighbours": self.neighbours}

    def around(self, marks: Tensor) -> Tensor:
        """Bool [V], the nearest tokens of marked ones, bool [V]. Raises ValueError for a token outside the index."""
        known = torch.zeros_like(marks)
        known[self.tokens] = True
        if bool((marks & ~known).any()):
            raise ValueError("a target whose nearest tokens were not searched")
        near = torch.zeros_like(marks)
        near[self.neighbours[marks[self.tokens]].flatten()] = True
        return near


@torch.no_grad()
def nearest(table: Tensor, tokens: Tensor, count: int) -> Tensor:
    """The `count` rows of a table [V, d] with the largest inner products with each token's row: [m, count]."""
    blocks = torch.split(tokens, slice_rows(*table.shape))
    neighbours = [(table[block] @ table.T).topk(count, sorted=False).indices for block in blocks]
    return torch.cat(neighbours) if neighbours else torch.zeros(0, count, dtype=torch.long)
