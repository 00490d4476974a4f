"""An arrow of the pipeline: a named, revisioned function from a recipe and input directories to an output directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from subgraft.stages.context import Context, Json

# The recipe is the stage's own Settings class, which a common signature cannot name.
StageFunction: TypeAlias = Callable[[Any, Mapping[str, Path], Path, Context], Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the pipeline knows it.

    function: (recipe, inputs, out, context) -> summary. It writes files into `out`, an existing empty directory.
    revision: raised by hand when the function's result changes for the same recipe; it is part of the fingerprint.
    distributed: the function may run on several Ray Train workers at once (it looks at torch.distributed itself).
    accelerated: the function uses a GPU where the runtime has one.
    """

    name: str
    revision: int
    function: StageFunction
    distributed: bool = False
    accelerated: bool = False
