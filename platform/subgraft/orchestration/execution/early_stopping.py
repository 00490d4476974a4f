"""Stop a training early and keep its result: the step with `training.stop_after` continues from its checkpoints.

A training with `training.stop_after` has its own fingerprint and work directory. Up to that update it is bit for bit
the same training as the one without, so it may start from that one's checkpoints.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from subgraft.orchestration.store.step import Step, made_by
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import TrainedStage

CHECKPOINTS, PRECISION = "checkpoints", "precision.json"
_PREFIX = "step-"


def full_training(step: Step) -> Step | None:
    """The same training without `stop_after`; None if the step has none."""
    stage = step.stage
    if not isinstance(stage, TrainedStage) or stage.training.stop_after is None:
        return None
    training = stage.training.model_copy(update={"stop_after": None})
    return replace(step, stage=stage.model_copy(update={"training": training}))


def copy_checkpoints(store: Store, step: Step) -> None:
    """Copy the full training's checkpoints up to this step's end, unless this step has checkpoints already.

    A checkpoint that is written or removed during the copy does not verify, and readers skip it.
    """
    full, folder = full_training(step), store.work(step) / CHECKPOINTS
    if full is None or folder.exists():
        return
    assert isinstance(step.stage, TrainedStage)
    for checkpoint in _checkpoints(store.work(full)):
        if _number(checkpoint) <= (step.stage.training.stop_after or 0):
            copy = folder / checkpoint.relative_to(store.work(full) / CHECKPOINTS)
            with contextlib.suppress(OSError):
                shutil.copytree(checkpoint, copy)
    with contextlib.suppress(OSError):  # for precision `auto`: a training continues in the precision that it started in
        shutil.copy(store.work(full) / PRECISION, store.work(step) / PRECISION)


def last_checkpoint_update(store: Store, steps: Iterable[Step]) -> int | None:
    """The last update for which any of the full trainings has a checkpoint; None if none has."""
    trainings = [training for step in made_by(TrainedStage, steps) if (training := full_training(step)) is not None]
    return max(
        (_number(checkpoint) for training in trainings for checkpoint in _checkpoints(store.work(training))),
        default=None,
    )


def _checkpoints(work: Path) -> list[Path]:
    """All checkpoints; each part of the step's training has a folder with the last few."""
    return sorted((work / CHECKPOINTS).glob(f"*/{_PREFIX}*"))


def _number(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix(_PREFIX)
    return int(number) if number.isdecimal() else 0
