"""Target sampling: the targets of a batch compete with some tokens of a large vocabulary alone, the candidates.

The loss that is computed so depends on the batch: on the targets of a whole micro-batch, those of all workers, who all
compute it over the same candidates. Only training does so; a model's dev scores are those of the whole vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.target_sampling import NearestTargets, NoiseContrastive, TargetSamplingSettings, UniformTargets
from subgraft.modeling.sides import side
from subgraft.training.objectives.cross_entropy import linear_cross_entropy
from subgraft.training.objectives.embedding_view import IGNORED, OwnTables, counted_states
from subgraft.training.objectives.nearest_tokens import NearestTokens
from subgraft.training.objectives.noise_contrastive import linear_noise_contrast
from subgraft.training.objectives.distributed import Workers, marked_anywhere


@dataclass(frozen=True)
class SampledBatch:
    """A batch whose targets compete with some tokens alone.

    candidates: their ids [C], ascending, every target among them.  noise: bool [C], which of these are noise, where
    targets are told from noise; None where there is a softmax over all of them.  weights: float [C], the logarithm of
    how many tokens each counts for in the softmax; None where each counts for itself.
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


class SampledTables(OwnTables):
    """The model's own tables, of which a batch's candidates alone are predicted."""

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
            return linear_noise_contrast(picked, rows, bias, places, self._noise)
        if self._weights is not None:
            bias = self._weights if bias is None else bias + self._weights
        return linear_cross_entropy(picked, rows, bias, places, label_smoothing)


class SampledLoss(nn.Module):
    """The loss of a `TokenLoss`, or of a mixture of them: over candidates where a batch has some, else over all."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.model: PreTrainedModel = loss.model
        self.loss = loss

    def forward(self, batch: Any) -> dict[str, Tensor]:
        if not isinstance(batch, SampledBatch):
            return self.loss(batch)  # type: ignore[no-any-return]
        return self.loss.by(SampledTables(self.model, batch), batch.batch)  # type: ignore[no-any-return]


class TargetSampling(ABC):
    """What chooses the candidates of the batches of a training: what `training.lookahead` asks for."""

    every: int | None = None

    def __init__(self, model: PreTrainedModel, seed: int) -> None:
        decoder = side(model, "decoder")
        assert decoder.output is not None
        self._output = decoder.output
        self._vocabulary = decoder.output.out_features
        self._seed = seed
        self._counts: list[int] = []

    def prepare(self, batches: Sequence[Any], step: int, workers: Workers) -> list[SampledBatch]:
        """The batches with their candidates, which are the same on all workers."""
        targets = marked_anywhere(torch.stack([self._marks([batch.labels]) for batch in batches]), workers)
        sampled = [
            self._sampled(batch, marks, np.random.default_rng([self._seed, step, place]))
            for place, (batch, marks) in enumerate(zip(batches, targets, strict=True))
        ]
        self._counts = [len(each.candidates) for each in sampled]
        return sampled

    @abstractmethod
    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        """targets: bool [V], those of the micro-batch that the batch is a share of."""

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:  # noqa: B027
        """Nothing is known of batches to come, unless `every` says otherwise."""

    def measured(self) -> dict[str, float]:
        """Candidates of the last update's micro-batches, on average."""
        return {"candidates": sum(self._counts) / max(len(self._counts), 1)}

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027
        """What is drawn is a function of the step alone."""

    def _beside_drawn(self, batch: Any, certain: Tensor, count: int, rng: np.random.Generator) -> SampledBatch:
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
        """Bool [V]: which tokens are among the labels."""
        marks = torch.zeros(self._vocabulary, dtype=torch.bool)
        for each in labels:
            marks[each[each != IGNORED]] = True
        return marks


class NearestSampling(TargetSampling):
    """Candidates are the targets and the nearest tokens of each (Zheng et al., EMNLP 2021, algorithm 2).

    The tokens with the largest scores, and some of all others that count for the rest, give an unbiased denominator of
    the softmax (Mussmann, Levy and Ermon, UAI 2017); the nearest alone leave out what training never sees.
    """

    def __init__(self, settings: NearestTargets, model: PreTrainedModel, seed: int) -> None:
        super().__init__(model, seed)
        self.every = settings.rebuild_every
        self._neighbours = min(settings.neighbours, self._vocabulary)
        self._drawn = settings.drawn
        self._index = NearestTokens.none()

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:
        """Search the nearest tokens of the targets of these batches, each worker those of some of the targets."""
        targets = marked_anywhere(self._marks(batch.labels for batch in batches), workers)
        with workers.whole():
            self._index = NearestTokens.searched(
                self._output.weight.detach(), targets.nonzero().flatten(), self._neighbours, workers
            )

    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        return self._beside_drawn(batch, targets | self._index.around(targets), self._drawn, rng)

    def state(self) -> dict[str, Tensor]:
        return self._index.tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._index = NearestTokens(**tensors)


class UniformSampling(TargetSampling):
    """Candidates are the targets and tokens that are drawn from all."""

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
    """Targets are told from what is drawn."""

    def _sampled(self, batch: Any, targets: Tensor, rng: np.random.Generator) -> SampledBatch:
        noise = self._draw(rng)
        candidates = (targets | noise).nonzero().flatten()
        return SampledBatch(batch, candidates, noise[candidates])


def target_sampling(settings: TargetSamplingSettings, model: PreTrainedModel, seed: int) -> TargetSampling:
    """The kind of target sampling that settings ask for."""
    if isinstance(settings, NearestTargets):
        return NearestSampling(settings, model, seed)
    if isinstance(settings, UniformTargets):
        return UniformSampling(settings, model, seed)
    return NoiseSampling(settings, model, seed)
