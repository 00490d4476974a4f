"""The choice of `precision: auto`: measured once, then the same for all workers, steps of a home and attempts."""

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
from subgraft.base.files import make_private
from subgraft.config.training import NamedPrecision, TrainingSettings
from subgraft.modeling.precision import WORTHWHILE, LayerShape, MeasuredPrecision, device_name, faster_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.distributed import rank_and_world


class _Trained(Protocol):
    """The recipe of a training."""

    @property
    def training(self) -> TrainingSettings: ...

    def model_copy(self, *, update: Mapping[str, Any]) -> Self: ...


R = TypeVar("R", bound=_Trained)
# In a step's work directory, with its checkpoints: no training may resume from them in another precision.
PRECISION = "precision.json"
_NAMES: tuple[NamedPrecision, ...] = ("fp32", "bf16")


def with_named_precision(recipe: R, model: PreTrainedModel, context: Context) -> R:
    """The recipe with `auto` replaced by the precision this step began with, or the faster one on this machine.

    Rank 0 decides; no fingerprint changes. bf16 is retained, with a warning if it is slow.
    """
    if recipe.training.precision == "bf16":
        _warn_where_slow(model, context)
    if recipe.training.precision != "auto":
        return recipe
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rank, world = rank_and_world()
    decided = _NAMES.index(_settled(model, device, context).precision) if rank == 0 else 0
    if world > 1:
        shared = torch.tensor(decided, device=device)
        dist.broadcast(shared, src=0)
        decided = int(shared)
    training = recipe.training.model_copy(update={"precision": _NAMES[decided]})
    return recipe.model_copy(update={"training": training})


def describe_precision(context: Context) -> Mapping[str, Json] | None:
    """The precision for a step's record; None if the recipe named it."""
    measured = _stored(context.work / PRECISION)
    if measured is None:
        return None
    seconds: dict[str, Json] = {name: float(f"{value:.3g}") for name, value in measured.seconds.items()}
    return {"chosen": measured.precision, "seconds": seconds, "measured_on": measured.device}


def _warn_where_slow(model: PreTrainedModel, context: Context) -> None:
    """Warn, once per home and model shape, that bf16 is slower than fp32 on this processor."""
    if torch.cuda.is_available() or rank_and_world()[0]:
        return
    device = torch.device("cpu")
    measured = _measured(LayerShape.of(model), device, context)
    factor = measured.seconds["bf16"] / measured.seconds["fp32"]
    if factor > 1 / WORTHWHILE and _is_first(measured, context):
        context.warn(
            f"precision: bf16 takes {factor:.1f} times as long as fp32 on this processor ({measured.device}); "
            "with precision: auto the faster one is used"
        )


def _is_first(measured: MeasuredPrecision, context: Context) -> bool:
    """Whether this measurement was not reported yet."""
    if context.measured is None:
        return True
    key = hashlib.sha256(json.dumps(asdict(measured), sort_keys=True).encode()).hexdigest()[:16]
    try:
        (context.measured / f"slow-{key}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _settled(model: PreTrainedModel, device: torch.device, context: Context) -> MeasuredPrecision:
    """The step's own measurement, else the home's for all steps, else a new one."""
    own = context.work / PRECISION
    measured = _stored(own) or _measured(LayerShape.of(model), device, context)
    context.work.mkdir(parents=True, exist_ok=True)
    _keep(measured, own)
    return measured


def _measured(shape: LayerShape, device: torch.device, context: Context) -> MeasuredPrecision:
    if context.measured is None:
        return faster_precision(shape, device)
    key = json.dumps({**asdict(shape), "device": device_name(device), "torch": torch.__version__}, sort_keys=True)
    place = context.measured / f"precision-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    measured = _stored(place)
    if measured is None:
        place.parent.mkdir(parents=True, exist_ok=True)
        measured = faster_precision(shape, device)
        _keep(measured, place)
    # If several steps measure at the same time, the first result that is written applies to all.
    return _stored(place) or measured


def _keep(measured: MeasuredPrecision, place: Path) -> None:
    if _stored(place) is None:
        place.unlink(missing_ok=True)
        make_private(place, json.dumps(asdict(measured)))


def _stored(place: Path) -> MeasuredPrecision | None:
    """None if the file is missing or unreadable."""
    try:
        return json_io.build(MeasuredPrecision, json_io.parse_object(place.read_bytes()))
    except (OSError, ValueError):
        return None
