"""The state of a training, the selection of its best weights, its result, and the hook that prepares batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from subgraft.base.errors import OperationalError
from subgraft.config.training import SelectName

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.training.engine import Batch, Engine


@dataclass(frozen=True)
class CurvePoint:
    """Dev scores after `step` updates. epoch: may be fractional.  seconds: the training time, without evaluations."""

    step: int
    epoch: float
    seconds: float
    values: dict[str, float]


@dataclass
class TrainingState:
    """The state of a training without its tensors, which checkpoints store as JSON.

    updates: the number of updates on each source of batches, by its index, if the schedule depends on it.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    stale: int = 0
    finished: bool = False
    updates: dict[str, int] = field(default_factory=dict)
    curve: list[CurvePoint] = field(default_factory=list)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TrainingState:
        return cls(**{**state, "curve": [CurvePoint(**point) for point in state["curve"]]})


@dataclass(frozen=True)
class Outcome:
    """The result of a training.

    Attributes:
        curve: dev scores over the training.
        steps: the number of updates.
        best_step: the step whose weights the module has.
        seconds: the training time, without evaluations.
        trained_parameters: the number of trained parameters.
        precision: the precision that `auto` selected; None if it was configured.
        products: the library of matrix products, if it is not PyTorch's default.
    """

    curve: tuple[CurvePoint, ...]
    steps: int
    best_step: int
    seconds: float
    trained_parameters: int = 0
    precision: Mapping[str, Any] | None = None
    products: str | None = None


class Selection(NamedTuple):
    """The dev score that selects the best weights."""

    score: str
    lower_is_better: bool = False

    def signed_score(self, scores: Mapping[str, float]) -> float:
        """The score, negated if lower is better, so that a higher value is always better."""
        score = float(scores[self.score])
        return -score if self.lower_is_better else score


# `score` is the metric of models that predict labels; with `last`, no score selects weights.
SELECTIONS: Mapping[SelectName, Selection | None] = {
    "bleu": Selection("bleu"),
    "chrf": Selection("chrf"),
    "likelihood": Selection("bits_per_character", lower_is_better=True),
    "score": Selection("score"),
    "last": None,
}

CURVE = "curve.json"
# The names of a curve's dev scores.
SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "bits_per_character": "bits per character",
    "score": "score",
    "nats": "nats per label",
}


@dataclass(frozen=True)
class SelectedWeights:
    """The weights that a finetuning selected, the first of equally good ones, with their dev scores.

    Attributes:
        step: The step of the weights; 0 is before any training.
        score: The score by which systems are compared on dev: the one that selected the weights, or else BLEU, or bits
            per character without a source.
        value: The value of this score.
        bleu: Dev BLEU; None without a source.
        bits: Dev bits per character; None where labels are predicted.
    """

    step: int
    score: str
    value: float
    bleu: float | None
    bits: float | None

    @property
    def signed_value(self) -> float:
        """The value, negated if lower is better, so that a higher value is always better."""
        return -self.value if self.score == SCORES["bits_per_character"] else self.value


def selected_weights(finetuned: Path, select: SelectName | None = None) -> SelectedWeights:
    """The step and dev scores of a finetuned model's weights; `select` is the finetuning's score, dev BLEU if None."""
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    selection = SELECTIONS[select or "bleu"]
    best = curve[-1] if selection is None else max(curve, key=lambda point: selection.signed_score(point["values"]))
    values: dict[str, float] = best["values"]
    score = (
        selection.score
        if selection
        else next(name for name in ("score", "bleu", "bits_per_character") if name in values)
    )
    bits = values.get("bits_per_character")
    return SelectedWeights(best["step"], SCORES[score], values[score], values.get("bleu"), bits)


class BatchCallback(Protocol):
    """A hook that looks ahead and rewrites batches before they are computed, for example to sample their targets.

    All workers call it at the same steps, with their shares of the same batches. Checkpoints include its state.

    every: the number of updates between two calls of `look_ahead`, each of which gets as many batches; None for no
        calls.
    """

    every: int | None = None

    def look_ahead(self, batches: Iterable[Batch], engine: Engine) -> None:
        """Called with the batches of the next `every` updates, up to the end of the training; by default not used."""
        del batches, engine

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """The micro-batches to compute in place of `batches`, in the update that follows `step` others."""
        ...

    def measured(self) -> Mapping[str, float]:
        """Metrics of the last update; none by default."""
        return {}

    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, tensors: Mapping[str, Tensor]) -> None: ...
