"""The dev score that selects a training's weights, and the selected weights of a finished finetuning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from subgraft.base.errors import OperationalError
from subgraft.config.training import SelectName


class Selection(NamedTuple):
    """The dev score that selects the best weights. least: whether lower is better."""

    score: str
    least: bool = False

    def worth(self, scores: Mapping[str, float]) -> float:
        """The score as a number that is better if it is higher."""
        score = float(scores[self.score])
        return -score if self.least else score


# For a model that translates; `last`: nothing does.
SELECTIONS: Mapping[SelectName, Selection | None] = {
    "bleu": Selection("bleu"),
    "chrf": Selection("chrf"),
    "likelihood": Selection("bits_per_character", least=True),
    "last": None,
}

CURVE = "curve.json"
# The names of a curve's dev scores.
SCORES = {"bleu": "BLEU", "chrf": "chrF", "bits_per_character": "bits per character"}


@dataclass(frozen=True)
class SelectedWeights:
    """The weights that a finetuning selected: the first of equally good ones.

    Attributes:
        step: Of the weights; 0 is before any training.
        score: Systems are compared on dev by it: the score that selected the weights, else BLEU, or bits per
            character without a source.
        value: Of the score.
        bleu: On dev; None without a source.
        bits: Per character of dev.
    """

    step: int
    score: str
    value: float
    bleu: float | None
    bits: float

    @property
    def worth(self) -> float:
        """The value with a sign so that higher is better."""
        return -self.value if self.score == SCORES["bits_per_character"] else self.value


def selected_weights(finetuned: Path, select: SelectName | None = None) -> SelectedWeights:
    """The step and dev scores of a finetuned model's weights; `select` is the finetuning's score, dev BLEU if None."""
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    selection = SELECTIONS[select or "bleu"]
    best = curve[-1] if selection is None else max(curve, key=lambda point: selection.worth(point["values"]))
    values: dict[str, float] = best["values"]
    score = selection.score if selection else "bleu" if "bleu" in values else "bits_per_character"
    return SelectedWeights(best["step"], SCORES[score], values[score], values.get("bleu"), values["bits_per_character"])
