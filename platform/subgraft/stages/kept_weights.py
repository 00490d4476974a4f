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
    """Which weights a finetuning kept: the first of equally good ones; step 0 is those it began with."""

    step: int
    dev_bleu: float


def kept_weights(finetuned: Path, select: SelectName | None = None) -> KeptWeights:
    """The step and dev BLEU of a finetuned model's weights, from the curve beside them.

    select: what the finetuning went by; dev BLEU where it is not given.
    """
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    selection = SELECTIONS[select or "bleu"]
    best = curve[-1] if selection is None else max(curve, key=lambda point: selection.worth(point["values"]))
    return KeptWeights(int(best["step"]), float(best["values"]["bleu"]))
