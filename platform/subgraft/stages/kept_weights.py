"""Which weights a finetuning kept, as the curve beside them tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from subgraft.errors import OperationalError

CURVE = "curve.json"


@dataclass(frozen=True)
class KeptWeights:
    """What a finetuning kept: the first weights with its best dev BLEU. At step 0 they are those it began with."""

    step: int
    dev_bleu: float


def kept_weights(finetuned: Path) -> KeptWeights:
    """The step and dev BLEU of a finetuned model's weights, from the curve beside them."""
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    best = max(curve, key=lambda point: float(point["values"]["bleu"]))
    return KeptWeights(int(best["step"]), float(best["values"]["bleu"]))
