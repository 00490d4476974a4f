"""Trainings measured by the CPU seconds they have taken, which other processes of a machine do not change much.

Evaluations stop the clock. A training ends at the last of its marks, which are numbers of updates, or seconds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from subgraft.config.training import TrainingSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.progress import BatchCallback
from subgraft.training.schedule import Data

Unit = Literal["updates", "seconds"]
# No training of a study is resumed.
NEVER = 1e9


@dataclass(frozen=True)
class Point:
    """Where a training stood. seconds: CPU time of the process, without evaluations.  value: what `evaluate` found."""

    updates: int
    seconds: float
    value: float


class _EndedError(Exception):
    """A training has reached its last mark."""


@dataclass
class _Clock:
    """Evaluates a module before the first update at or after each mark."""

    module: nn.Module
    evaluate: Callable[[], float]
    marks: Sequence[float]
    unit: Unit
    points: list[Point] = field(default_factory=list)
    started: float = field(default_factory=time.process_time)

    def before_update(self, step: int) -> None:
        seconds = time.process_time() - self.started
        reached = step if self.unit == "updates" else seconds
        while reached >= self.marks[len(self.points)]:
            self.module.eval()
            paused = time.process_time()
            self.points.append(Point(step, seconds, self.evaluate()))
            self.started += time.process_time() - paused
            if len(self.points) == len(self.marks):
                raise _EndedError


def plain_trainer(
    module: nn.Module,
    data: Data,
    settings: TrainingSettings,
    folder: Path,
    *,
    seed: int,
    hooks: Hooks | None = None,
    callback: BatchCallback | None = None,
) -> Trainer:
    """Of a module whose loss is called `loss`, on this CPU."""
    return Trainer(
        module,
        {"loss": 1.0},
        data,
        settings,
        PlainEngine(module, settings, torch.device("cpu")),
        Checkpoints(folder),
        seed=seed,
        checkpoint_seconds=NEVER,
        hooks=hooks,
        callback=callback,
    )


def trained(
    module: nn.Module,
    data: Data,
    settings: TrainingSettings,
    *,
    seed: int,
    evaluate: Callable[[], float],
    marks: Sequence[float],
    unit: Unit,
    callback: BatchCallback | None = None,
) -> list[Point]:
    """Train a module whose loss is called `loss`; a point for each mark, which go up.

    The settings must allow for more updates than the marks ask for. Time that a callback takes counts.
    """
    clock = _Clock(module, evaluate, marks, unit)
    with tempfile.TemporaryDirectory() as place:
        hooks = Hooks(before_update=clock.before_update)
        trainer = plain_trainer(module, data, settings, Path(place), seed=seed, hooks=hooks, callback=callback)
        try:
            trainer.run()
        except _EndedError:
            return clock.points
    raise ValueError(f"the training ended before its last mark, {marks[-1]:g} {unit}")
