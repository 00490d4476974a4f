"""Resolves `precision: auto`: measured once, then the same for all workers, all steps of a home and all attempts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import torch
import torch.distributed as dist
from transformers import PreTrainedModel

from subgraft.base import json_io
from subgraft.base.security.private_files import make_private
from subgraft.config.training import NamedPrecision, TrainingSettings
from subgraft.modeling.precision import MAX_TIME_RATIO, LayerShape, MeasuredPrecision, device_name, faster_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.distributed import rank_and_world


class _TrainingRecipe(Protocol):
    """The recipe of a training."""

    @property
    def training(self) -> TrainingSettings: ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self: ...


R = TypeVar("R", bound=_TrainingRecipe)
# It is stored next to the checkpoints of a step, because a training must not resume from them in another precision.
PRECISION = "precision.json"
_PRECISIONS: tuple[NamedPrecision, ...] = ("fp32", "bf16")


def with_named_precision(recipe: R, model: PreTrainedModel, context: Context) -> R:
    """The recipe with `auto` replaced by the precision that the step started in, or else the faster one here.

    Rank 0 decides for all workers. Fingerprints do not change. A configured bf16 is never replaced, but a warning
    reports that it is slow.
    """
    if recipe.training.precision == "bf16":
        _warn_if_slow(model, context)
    if recipe.training.precision != "auto":
        return recipe
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rank, world = rank_and_world()
    index = _PRECISIONS.index(_resolve(model, device, context).precision) if rank == 0 else 0
    if world > 1:
        shared_index = torch.tensor(index, device=device)
        dist.broadcast(shared_index, src=0)
        index = int(shared_index)
    training = recipe.training.model_copy(update={"precision": _PRECISIONS[index]})
    return recipe.model_copy(update={"training": training})


def describe_precision(context: Context) -> Mapping[str, Json] | None:
    """The precision for a step's record; None if the recipe named it."""
    measured = _load(context.work / PRECISION)
    if measured is None:
        return None
    seconds: dict[str, Json] = {name: float(f"{value:.3g}") for name, value in measured.seconds.items()}
    return {"chosen": measured.precision, "seconds": seconds, "measured_on": measured.device}


def _warn_if_slow(model: PreTrainedModel, context: Context) -> None:
    """Warn, once per home and model shape, that bf16 is slower than fp32 on this processor."""
    if torch.cuda.is_available() or rank_and_world()[0]:
        return
    device = torch.device("cpu")
    measured = _measure(LayerShape.of(model), device, context)
    factor = measured.seconds["bf16"] / measured.seconds["fp32"]
    if factor <= 1 / MAX_TIME_RATIO:
        return
    if context.measured is not None:
        key = hashlib.sha256(json.dumps(asdict(measured), sort_keys=True).encode()).hexdigest()[:16]
        try:
            (context.measured / f"slow-{key}").touch(exist_ok=False)
        except FileExistsError:  # this measurement was reported
            return
    context.warn(
        f"precision: bf16 takes {factor:.1f} times as long as fp32 on this processor ({measured.device}); "
        "with precision: auto the faster one is used"
    )


def _resolve(model: PreTrainedModel, device: torch.device, context: Context) -> MeasuredPrecision:
    """The measurement of this step, or else the one that all steps of the home share, or else a new one."""
    path = context.work / PRECISION
    measured = _load(path) or _measure(LayerShape.of(model), device, context)
    context.work.mkdir(parents=True, exist_ok=True)
    _save_if_missing(measured, path)
    ratio = measured.seconds["bf16"] / measured.seconds["fp32"]
    context.note(
        f"precision: auto chose {measured.precision}, because bf16 takes {ratio:.2g} times as long as fp32 on "
        f"{measured.device} (it is chosen up to {MAX_TIME_RATIO})"
    )
    return measured


def _measure(shape: LayerShape, device: torch.device, context: Context) -> MeasuredPrecision:
    """The home's measurement for layers of this shape on this device, which is made if there is none."""
    if context.measured is None:
        return faster_precision(shape, device)
    key = json.dumps({**asdict(shape), "device": device_name(device), "torch": torch.__version__}, sort_keys=True)
    path = context.measured / f"precision-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    measured = _load(path)
    if measured is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        measured = faster_precision(shape, device)
        _save_if_missing(measured, path)
    # If several steps measure at the same time, the first result that is written applies to all.
    return _load(path) or measured


def _save_if_missing(measured: MeasuredPrecision, path: Path) -> None:
    if _load(path) is None:
        path.unlink(missing_ok=True)
        make_private(path, json.dumps(asdict(measured)))


def _load(path: Path) -> MeasuredPrecision | None:
    """A stored measurement; None if the file is missing or unreadable."""
    try:
        return json_io.build(MeasuredPrecision, json_io.parse_object(path.read_bytes()))
    except (OSError, ValueError):
        return None
