"""Pretraining in stages with different lengths or batch sizes (ERNIE 3; Sun et al., 2021, section 3.3.2).

Text is cut into examples for each length. The loss is the same in all stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from subgraft.config.training import PretrainSettings, TrainingSettings
from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs, part_of
from subgraft.training.objectives.compute.mixture import Mixture, objectives_of
from subgraft.training.objectives.registry import ObjectiveSettings
from subgraft.training.schedule import Data, StagedData
from subgraft.training.streams import StreamedData


class Stages:
    """The data of several stages, whose examples are numbered stage after stage.

    stages: for each stage, the number of updates before it, its settings, and its data.
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
        stage, before = part_of(self._ends, int(indices[0]))
        return self.stages[stage][2].batch(indices - before, epoch)


class ObjectivesInStages(NamedTuple):
    """The data of a pretraining on one objective or several, by kind.

    Attributes:
        data: The examples of all stages.
        longest: The objectives at the largest length.
        of_loss: The objectives with the most streams, whose losses and memories are used for all lengths.
    """

    data: Data
    longest: Mapping[str, Objective]
    of_loss: Mapping[str, Objective]


def in_stages(
    objectives: Sequence[ObjectiveSettings], training: PretrainSettings, request: ObjectiveInputs
) -> ObjectivesInStages:
    """The objectives for all lengths of the training, with text that is cut into examples of each length."""
    lengths = sorted({settings.max_length for _, settings in training.stages})
    by_length = {length: objectives_of(objectives, of_length(request, length)) for length in lengths}
    data_by_length = {length: _mix(objectives, each) for length, each in by_length.items()}
    data: Data = data_by_length[training.max_length]
    if training.length_schedule or (training.batch_size_schedule and len(objectives) > 1):
        data = Stages([(step, own, data_by_length[own.max_length]) for step, own in training.stages])
    of_loss: dict[str, Objective] = {}  # those with the most streams
    for each in objectives:
        of_lengths = (of_kind[each.kind] for of_kind in by_length.values())
        of_loss[each.kind] = max(of_lengths, key=lambda one: one.plan.width if isinstance(one, StreamedData) else 0)
    return ObjectivesInStages(data, by_length[training.longest], of_loss)


def of_length(request: ObjectiveInputs, length: int) -> ObjectiveInputs:
    """The request for examples of at most `length` tokens."""
    return replace(request, training=request.training.model_copy(update={"max_length": length}))


def _mix(settings: Sequence[ObjectiveSettings], objectives: Mapping[str, Objective]) -> Data:
    """The examples of one objective, or a mixture of several."""
    if len(settings) == 1:
        return objectives[settings[0].kind]
    weights: dict[str, float] = {each.kind: each.weight for each in settings}
    return Mixture(objectives, weights, {each.kind: each.from_step for each in settings})
