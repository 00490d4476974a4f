"""A stage of the pipeline: a named, revisioned function from a recipe and input directories to an output directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar

from subgraft.pipeline.recipes.recipe import Recipe

if TYPE_CHECKING:
    from subgraft.training.context import Context, Json


# An evaluation's sentence statistics, by metric (see `metrics.sentence_statistics`). SPELLED [n]: whether source and
# reference have no unknown token in the model's vocabularies. BITS and CHARACTERS of continued text, for each test line
# [n]: both are 0 if the line does not fit into the model. CONFIDENCE [n]: the probability of each predicted class.
STATISTICS = "statistics.safetensors"
SPELLED = "spelled"
BITS, CHARACTERS = "bits", "characters"
CONFIDENCE = "confidence"
QUALITY = "intrinsic.json"
# A pretraining's weights of earlier steps: a model directory for each, by its step.
SAVED_STEPS = "steps"
LIKELIHOOD = "likelihood.json"
SEEN = "seen.json"


# Without a type argument, `Stage` and `Step` take any recipe.
R = TypeVar("R", bound=Recipe, covariant=True, default=Recipe)
Inputs: TypeAlias = Mapping[str, Path]  # the directory of each input, by role
Summary: TypeAlias = "dict[str, Json]"
StageFunction: TypeAlias = "Callable[[Any, Inputs, Path, Context], Mapping[str, Json]]"


def further_corpora(inputs: Inputs) -> list[Path]:
    """The corpora of further directions or tasks: the inputs with a role corpus/NAME, sorted by name."""
    return [inputs[role] for role in sorted(inputs) if role.startswith("corpus/")]


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
