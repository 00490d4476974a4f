"""Stop a training early and keep its result: the step with `training.stop_after` continues from its checkpoints.

A recipe with `training.stop_after` has its own fingerprint and work directory. Up to that update it is bit for bit the
same training as the one without, so it may start from that one's checkpoints.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from subgraft.orchestration.store.step import Step, made_by
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.recipes.training import TrainedRecipe

CHECKPOINTS, PRECISION = "checkpoints", "precision.json"
_NAMED = "step-"


def full_training(step: Step) -> Step | None:
    """The same training without `stop_after`; None if the step has none."""
    recipe = step.recipe
    if not isinstance(recipe, TrainedRecipe) or recipe.training.stop_after is None:
        return None
    training = recipe.training.model_copy(update={"stop_after": None})
    return replace(step, recipe=recipe.model_copy(update={"training": training}))


def take_over(store: Store, step: Step) -> None:
    """Copy the checkpoints of the whole training that are not beyond this step's end, unless it has some of its own.

    One that is being written or removed meanwhile does not verify, and is left aside by whoever reads it.
    """
    whole, own = full_training(step), store.work(step) / CHECKPOINTS
    if whole is None or own.exists():
        return
    assert isinstance(step.recipe, TrainedRecipe)
    for found in _checkpoints(store.work(whole)):
        if _number(found) <= (step.recipe.training.stop_after or 0):
            place = own / found.relative_to(store.work(whole) / CHECKPOINTS)
            with contextlib.suppress(OSError):
                shutil.copytree(found, place)
    with contextlib.suppress(OSError):  # where the recipe says `auto`; a training goes on in what it began with
        shutil.copy(store.work(whole) / PRECISION, store.work(step) / PRECISION)


def reached(store: Store, steps: Iterable[Step]) -> int | None:
    """The last update that any of the full trainings has a checkpoint of; None if none has."""
    wholes = [whole for step in made_by(TrainedRecipe, steps) if (whole := full_training(step)) is not None]
    return max((_number(found) for whole in wholes for found in _checkpoints(store.work(whole))), default=None)


def _checkpoints(work: Path) -> list[Path]:
    """All checkpoints; each part of the step's training has a folder with the last few."""
    return sorted((work / CHECKPOINTS).glob(f"*/{_NAMED}*"))


def _number(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix(_NAMED)
    return int(number) if number.isdecimal() else 0
