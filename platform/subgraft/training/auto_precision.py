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
# In a step's work directory, beside its checkpoints, which nobody may carry on in another precision.
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
        told = torch.tensor(decided, device=device)
        dist.broadcast(told, src=0)
        decided = int(told)
    training = recipe.training.model_copy(update={"precision": _NAMES[decided]})
    return recipe.model_copy(update={"training": training})


def describe_precision(context: Context) -> Mapping[str, Json] | None:
    """The precision for a step's record; None if the recipe named it."""
    found = _kept(context.work / PRECISION)
    if found is None:
        return None
    seconds: dict[str, Json] = {name: float(f"{value:.3g}") for name, value in found.seconds.items()}
    return {"chosen": found.precision, "seconds": seconds, "measured_on": found.device}


def _warn_where_slow(model: PreTrainedModel, context: Context) -> None:
    """Warn, once per home and model shape, that bf16 is slower than fp32 on this processor."""
    if torch.cuda.is_available() or rank_and_world()[0]:
        return
    device = torch.device("cpu")
    found = _measured(LayerShape.of(model), device, context)
    factor = found.seconds["bf16"] / found.seconds["fp32"]
    if factor > 1 / WORTHWHILE and _is_first(found, context):
        context.warn(
            f"precision: bf16 takes {factor:.1f} times as long as fp32 on this processor ({found.device}); "
            "with precision: auto the faster one is taken"
        )


def _is_first(found: MeasuredPrecision, context: Context) -> bool:
    """Whether nothing was said yet of this measurement."""
    if context.measured is None:
        return True
    key = hashlib.sha256(json.dumps(asdict(found), sort_keys=True).encode()).hexdigest()[:16]
    try:
        (context.measured / f"slow-{key}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _settled(model: PreTrainedModel, device: torch.device, context: Context) -> MeasuredPrecision:
    """What the step began with, or what was measured for all steps of the home, or what is measured now."""
    own = context.work / PRECISION
    found = _kept(own) or _measured(LayerShape.of(model), device, context)
    context.work.mkdir(parents=True, exist_ok=True)
    _keep(found, own)
    return found


def _measured(shape: LayerShape, device: torch.device, context: Context) -> MeasuredPrecision:
    if context.measured is None:
        return faster_precision(shape, device)
    key = json.dumps({**asdict(shape), "device": device_name(device), "torch": torch.__version__}, sort_keys=True)
    place = context.measured / f"precision-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    found = _kept(place)
    if found is None:
        place.parent.mkdir(parents=True, exist_ok=True)
        found = faster_precision(shape, device)
        _keep(found, place)
    # Of several steps that measure at the same moment, the first to write has measured for all.
    return _kept(place) or found


def _keep(measured: MeasuredPrecision, place: Path) -> None:
    if _kept(place) is None:
        place.unlink(missing_ok=True)
        make_private(place, json.dumps(asdict(measured)))


def _kept(place: Path) -> MeasuredPrecision | None:
    """None where nothing is there, or nothing that can be read."""
    try:
        return json_io.build(MeasuredPrecision, json_io.parse_object(place.read_bytes()))
    except (OSError, ValueError):
        return None
