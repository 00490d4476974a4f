"""An arrow of the pipeline: a named, revisioned function from a recipe and input directories to an output directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar

from subgraft.pipeline.recipes.recipe import Recipe

if TYPE_CHECKING:
    from subgraft.training.context import Context, Json

# Where nothing is said of the recipe (`Stage`, `Step`), it can be any.
R = TypeVar("R", bound=Recipe, covariant=True, default=Recipe)
StageFunction: TypeAlias = "Callable[[Any, Mapping[str, Path], Path, Context], Mapping[str, Json]]"


@dataclass(frozen=True, slots=True)
class Stage(Generic[R]):
    """A stage of the pipeline. Its libraries are imported only when it runs.

    Attributes:
        name: Part of the fingerprint.
        revision: Increased when the result changes for the same recipe; part of the fingerprint.
        run: (recipe, inputs, out, context) -> summary. It writes files into `out`, an existing empty directory.
        recipe: The class of its recipes.
        distributed: Whether it may run on several Ray Train workers, using torch.distributed.
        accelerated: Whether it uses a GPU if the runtime has one.
    """

    name: str
    revision: int
    run: StageFunction
    recipe: type[R] = Recipe  # type: ignore[assignment]
    distributed: bool = False
    accelerated: bool = False
