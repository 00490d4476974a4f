"""Several texts in one training: mixtures of objectives, and other text in addition to a task's text or in its place.

`training.schedule` has the plans of their batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.embedding_view import EmbeddingView
from subgraft.training.objectives.compute.interface import (
    Objective,
    ObjectiveInputs,
    ObjectiveLoss,
    TaskText,
    TrainedText,
    part_of,
)
from subgraft.training.objectives.compute.masked import train_next_sentence
from subgraft.training.objectives.compute.whole_examples import Batched
from subgraft.training.objectives.objective import AnyObjective
from subgraft.training.schedule import StagedData


@dataclass(frozen=True)
class MixedBatch:
    """A batch of the objective `kind`, which prefixes the names of its losses."""

    kind: str
    batch: Any

    @property
    def counts(self) -> dict[str, int]:
        return {loss_name(self.kind, name): count for name, count in self.batch.counts.items()}

    @property
    def shape(self) -> tuple[int, int]:
        shape: tuple[int, int] = self.batch.shape
        return shape

    @property
    def labels(self) -> Tensor:
        labels: Tensor = self.batch.labels
        return labels

    def to(self, device: torch.device | str) -> MixedBatch:
        return MixedBatch(self.kind, self.batch.to(device))


class Mixture:
    """The examples of several objectives, numbered one after another. Each batch belongs to one objective.

    Args:
        parts: the data of each objective.
        weights: the weights by which objectives are drawn; without them, an epoch is one pass over all examples.
        from_steps: the number of updates after which each objective is drawn; None for all from the start.
    """

    def __init__(
        self,
        parts: Mapping[str, Batched],
        weights: Mapping[str, float] | None = None,
        from_steps: Mapping[str, int] | None = None,
    ) -> None:
        self._kinds = list(parts)
        self.parts = list(parts.values())
        self.weights = None if weights is None else [weights[kind] for kind in parts]
        self.from_steps = None if from_steps is None else [from_steps[kind] for kind in parts]
        self._ends = np.cumsum([len(part.lengths) for part in self.parts])

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([part.lengths for part in self.parts])

    def begin(self, step: int) -> None:
        """Pass the step on to the parts whose examples depend on it."""
        for part in self.parts:
            if isinstance(part, StagedData):
                part.begin(step)

    def batch(self, indices: np.ndarray, epoch: int) -> MixedBatch:
        part, before = part_of(self._ends, int(indices.min()))
        if indices.max() >= self._ends[part]:
            raise ValueError("a batch holds examples of several objectives")
        return MixedBatch(self._kinds[part], self.parts[part].batch(indices - before, epoch))


class MixedLoss(ObjectiveLoss):
    """The loss of a batch's objective. All objectives train one `model`."""

    def __init__(self, model: nn.Module, losses: Mapping[str, ObjectiveLoss]) -> None:
        super().__init__()
        self.model = model
        self.losses = nn.ModuleDict(losses)
        self.weights = {
            loss_name(kind, name): weight for kind, loss in losses.items() for name, weight in loss.weights.items()
        }

    @property
    def models(self) -> list[nn.Module]:
        """The model, and those of objectives that have heads of their own on its body."""
        all_models = [self.model, *(getattr(loss, "model", self.model) for loss in self.losses.values())]
        return list({id(model): model for model in all_models}.values())

    @property
    def users(self) -> dict[nn.Parameter, frozenset[str]]:
        """For each parameter that not all losses use, the names of the losses that do."""
        losses: Iterable[tuple[str, Any]] = self.losses.items()
        return users_of([([loss_name(kind, name) for name in loss.weights], loss.used()) for kind, loss in losses])

    def forward(self, batch: MixedBatch) -> dict[str, Tensor]:
        return _with_kind(batch.kind, self.losses[batch.kind](batch.batch))

    def by(self, embedding_view: EmbeddingView, batch: MixedBatch) -> dict[str, Tensor]:
        """The loss of a batch under another view of the embeddings than the model's own."""
        loss: Any = self.losses[batch.kind]
        return _with_kind(batch.kind, loss.by(embedding_view, batch.batch))


def users_of(used: Sequence[tuple[Collection[str], Iterable[nn.Parameter]]]) -> dict[nn.Parameter, frozenset[str]]:
    """For each parameter that not all losses use, the names of the losses that do.

    used: pairs of the names of losses and the parameters that they use.
    """
    users: dict[nn.Parameter, set[str]] = {}
    for names, parameters in used:
        for parameter in parameters:
            users.setdefault(parameter, set()).update(names)
    count = sum(len(names) for names, _ in used)
    return {each: frozenset(names) for each, names in users.items() if len(names) < count}


def _with_kind(kind: str, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {loss_name(kind, name): value for name, value in sums.items()}


def loss_name(kind: str, name: str) -> str:
    """The name of one objective's loss in a mixture."""
    return f"{kind}_{name}"


class AuxiliaryText:
    """A task's text plus additional text, which makes up `second_share` of each batch; scored on the task's dev split.

    The examples of the task are numbered first. A batch has examples of only one text. truncated: the number of
    truncated examples of the task.
    """

    def __init__(self, task: TaskText, text: TrainedText, share: float) -> None:
        self.first, self.second, self.second_share = task, text, share
        self.truncated = task.truncated
        self._first_size = len(task.lengths)

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        second = self.second.texts
        return {side: chain(lines, second.get(side, ())) for side, lines in self.first.texts.items()}

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([self.first.lengths, self.second.lengths])

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        if indices[0] < self._first_size:
            return self.first.batch(indices, epoch)
        return self.second.batch(indices - self._first_size, epoch)

    def loss(self, bundle: Bundle) -> nn.Module:
        return self.first.loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return self.first.dev_scores(bundle)


class ReplacementText:
    """Other text in place of a task's text; scored on the task's dev split."""

    def __init__(self, task: TaskText, text: TrainedText) -> None:
        self._task, self._text = task, text
        self.truncated = text.truncated

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        return self._text.texts

    @property
    def lengths(self) -> np.ndarray:
        return self._text.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        return self._text.batch(indices, epoch)

    def loss(self, bundle: Bundle) -> nn.Module:
        return self._task.loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return self._task.dev_scores(bundle)


def objectives_of(
    settings: Sequence[AnyObjective], request: ObjectiveInputs, *, of_tokens: bool = False
) -> dict[str, Objective]:
    """The configured objectives on one model and its text, by kind. of_tokens: only those that predict tokens."""
    objectives: dict[str, Objective] = {
        each.kind: each.pretraining(replace(request, task=task))
        for task, each in enumerate(settings)
        if each.predicts_tokens or not of_tokens
    }
    if any(each.predicts_next for each in settings):  # other objectives may have frozen the head
        train_next_sentence(request.bundle.model, predicts_next=True)
    return objectives


def with_text(
    task: TaskText, objective: AnyObjective, request: ObjectiveInputs, training: FinetuneSettings
) -> AuxiliaryText | ReplacementText:
    """A task's text and that of the request's corpus, which makes up the configured fraction of each batch."""
    text, share = objective.additional(request, training), training.monolingual_fraction
    return ReplacementText(task, text) if share == 1.0 else AuxiliaryText(task, text, share)
