"""Which weights a finetuning kept, as the curve beside them tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import OperationalError
from subgraft.config.training import SelectName
from subgraft.training.best_weights import SELECTIONS

CURVE = "curve.json"
# The dev scores of a curve, as they are told.
SCORES = {"bleu": "BLEU", "chrf": "chrF", "bits_per_character": "bits per character"}


@dataclass(frozen=True)
class SelectedWeights:
    """Which weights a finetuning kept: the first of equally good ones; step 0 is those it began with.

    score: what systems are compared by on dev: the score that chose the weights, or BLEU where none did; bits per
    character for a model that has no source.  value: its value.  bleu: None without a source.  bits: per character.
    """

    step: int
    score: str
    value: float
    bleu: float | None
    bits: float

    @property
    def worth(self) -> float:
        """The higher, the better."""
        return -self.value if self.score == SCORES["bits_per_character"] else self.value


def selected_weights(finetuned: Path, select: SelectName | None = None) -> SelectedWeights:
    """The step and dev scores of a finetuned model's weights, from the curve beside them.

    select: what the finetuning went by; dev BLEU where it is not given.
    """
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    selection = SELECTIONS[select or "bleu"]
    best = curve[-1] if selection is None else max(curve, key=lambda point: selection.worth(point["values"]))
    values: dict[str, float] = best["values"]
    score = selection.score if selection else "bleu" if "bleu" in values else "bits_per_character"
    return SelectedWeights(best["step"], SCORES[score], values[score], values.get("bleu"), values["bits_per_character"])
