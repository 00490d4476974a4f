"""Which weights a finetuning kept, as the curve beside them tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from subgraft.config.training import SelectName
from subgraft.errors import OperationalError
from subgraft.training.selection import SELECTIONS

CURVE = "curve.json"


@dataclass(frozen=True)
class KeptWeights:
    """Which weights a finetuning kept: the first of equally good ones; step 0 is those it began with.

    dev_bleu: None of a model that has no source; such models are compared by dev_bits, per character.
    """

    step: int
    dev_bleu: float | None
    dev_bits: float

    @property
    def worth(self) -> float:
        """The higher, the better."""
        return -self.dev_bits if self.dev_bleu is None else self.dev_bleu

    @property
    def score(self) -> str:
        """What that goes by."""
        return "bits per character" if self.dev_bleu is None else "BLEU"

    @property
    def value(self) -> float:
        """Of that score."""
        return self.dev_bits if self.dev_bleu is None else self.dev_bleu


def kept_weights(finetuned: Path, select: SelectName | None = None) -> KeptWeights:
    """The step and dev scores of a finetuned model's weights, from the curve beside them.

    select: what the finetuning went by; dev BLEU where it is not given.
    """
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    selection = SELECTIONS[select or "bleu"]
    best = curve[-1] if selection is None else max(curve, key=lambda point: selection.worth(point["values"]))
    bleu, bits = best["values"].get("bleu"), best["values"]["bits_per_character"]
    return KeptWeights(int(best["step"]), None if bleu is None else float(bleu), float(bits))
