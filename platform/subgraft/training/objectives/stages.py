"""A pretraining in stages of other lengths or batch sizes (ERNIE 3; Sun et al., 2021, section 3.3.2).

Text is cut into examples for each length; the loss is the same in all stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.training import PretrainSettings, TrainingSettings
from subgraft.training.objectives.mixture import Mixture
from subgraft.training.objectives.objective import Objective, Request
from subgraft.training.objectives.registry import objectives_of
from subgraft.training.schedule import Data, StagedData
from subgraft.training.streams import StreamedData


class Stages:
    """Data of stages, numbered one after another.

    stages: of each the number of updates before it, its settings, and its data.
    """

    def __init__(self, stages: Sequence[tuple[int, TrainingSettings, Data]]) -> None:
        self.stages = stages
        self._ends = np.cumsum([len(data.lengths) for _, _, data in stages])

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([data.lengths for _, _, data in self.stages])

    def begin(self, step: int) -> None:
        """Pass the step on to the data of its stage."""
        data = next(data for begin, _, data in reversed(self.stages) if begin <= step)
        if isinstance(data, StagedData):
            data.begin(step)

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        stage = int(np.searchsorted(self._ends, indices[0], side="right"))
        before = int(self._ends[stage - 1]) if stage else 0
        return self.stages[stage][2].batch(indices - before, epoch)


class ObjectivesInStages(NamedTuple):
    """The data of a pretraining on one objective or several, by kind.

    data: the examples of all stages.  longest: the objectives at the largest length.  of_loss: those whose losses and
    memories serve all lengths, because they have the most streams.
    """

    data: Data
    longest: Mapping[str, Objective]
    of_loss: Mapping[str, Objective]


def in_stages(
    objectives: Sequence[ObjectiveSettings], training: PretrainSettings, request: Request
) -> ObjectivesInStages:
    """The objectives on text that is cut into examples of each length of the training."""
    lengths = sorted({settings.max_length for _, settings in training.stages})
    by_length = {length: objectives_of(objectives, of_length(request, length)) for length in lengths}
    mixed = {length: _in_turn(objectives, each) for length, each in by_length.items()}
    data: Data = mixed[training.max_length]
    if training.length_schedule or (training.batch_size_schedule and len(objectives) > 1):
        data = Stages([(step, own, mixed[own.max_length]) for step, own in training.stages])
    several = by_length.values()
    of_loss: dict[str, Objective] = {
        each.kind: max((of_kind[each.kind] for of_kind in several), key=_streams) for each in objectives
    }
    return ObjectivesInStages(data, by_length[training.longest], of_loss)


def of_length(request: Request, length: int) -> Request:
    """The request for examples of at most so many tokens."""
    return replace(request, training=request.training.model_copy(update={"max_length": length}))


def _in_turn(settings: Sequence[ObjectiveSettings], objectives: Mapping[str, Objective]) -> Data:
    """The examples of one objective, or of several in turn."""
    if len(settings) == 1:
        return objectives[settings[0].kind]
    weights: dict[str, float] = {each.kind: each.weight for each in settings}
    return Mixture(objectives, weights, {each.kind: each.from_step for each in settings})


def _streams(objective: Objective) -> int:
    return objective.plan.width if isinstance(objective, StreamedData) else 0
