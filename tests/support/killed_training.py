"""A small training that may be killed after a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from subgraft.config.training import PretrainSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.progress import BatchCallback
from subgraft.training.schedule import Data
from watched import KilledError


def trained_weights(
    place: Path,
    module: Any,
    data: Data,
    settings: PretrainSettings,
    callback: BatchCallback | None,
    die_at: int | None = None,
    watch: Callable[[Mapping[str, float]], None] = lambda values: None,
) -> dict[str, Tensor]:
    """Weights after a training that saves a checkpoint after every update, or KilledError at a step.

    watch: called with the metrics of each step.
    """

    def metrics(step: int, values: Mapping[str, float]) -> None:
        watch(values)
        if step == die_at:
            raise KilledError

    Trainer(
        module,
        module.weights,
        data,
        settings,
        PlainEngine(module, settings, torch.device("cpu")),
        Checkpoints(place),
        seed=3,
        checkpoint_seconds=1e-9,
        hooks=Hooks(metrics=metrics),
        callback=callback,
    ).run()
    return {name: each.clone() for name, each in module.state_dict().items()}
