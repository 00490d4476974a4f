"""What was measured on other tasks recommends for one that was not: a system by the number of pairs.

A prior is a table of test chrF, of which the nearest number of pairs counts. With few pairs, seeds of one system differ
by about a point of chrF, so that the default is recommended unless another system was ahead of it by more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

OLD, DEFAULT = "old", "mean"
MARGIN = 1.0  # points of chrF


@dataclass(frozen=True)
class Prior:
    """Test chrF of systems on one shift with one number of pairs.

    Attributes:
        shift: The upstream and the downstream corpus.
        frozen: Whether embeddings were not trained.
        chrf: By system, with OLD and DEFAULT among them.
        section: Where it is documented: a page under docs/.
    """

    shift: str
    pairs: int
    frozen: bool
    chrf: Mapping[str, float]
    section: str = ""


@dataclass(frozen=True)
class Recommendation:
    """A system, its mean gain over OLD in points of chrF, and the priors that it follows from."""

    system: str
    gain: float
    priors: tuple[Prior, ...]


def recommend(priors: Sequence[Prior], pairs: int, *, frozen: bool = False) -> Recommendation:
    """The system for a number of pairs: of each shift, the prior with the nearest number counts, as a ratio.

    priors: with one or more of this `frozen`; of a system, only those that all of the nearest have can be recommended.
    """
    nearest: dict[str, Prior] = {}
    for prior in priors:
        if prior.frozen == frozen:
            nearest[prior.shift] = min(nearest.get(prior.shift, prior), prior, key=lambda each: _ratio(each, pairs))
    chosen = tuple(nearest.values())
    systems = [name for name in chosen[0].chrf if all(name in prior.chrf for prior in chosen)]
    gains = {name: fmean(prior.chrf[name] - prior.chrf[OLD] for prior in chosen) for name in systems}
    best = max(gains, key=gains.__getitem__)
    system = best if gains[best] > gains[DEFAULT] + MARGIN else DEFAULT
    return Recommendation(system, gains[system], chosen)


def _ratio(prior: Prior, pairs: int) -> float:
    return abs(math.log(prior.pairs / max(1, pairs)))
