"""What was measured on other tasks advises for one that was not: by the number of pairs, and what is trained.

`Evidence` is the gain of a new vocabulary over three seeds, with its significance. A `Prior` has the test chrF of
several systems, mostly of one seed; with few pairs seeds of one system differ by about a point of chrF, so that `mean`
is recommended unless another system was ahead of it by more. studies/judged_advice.py judges that rule on each shift
by the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from subgraft.experiments.fit.choices import INITIALISER

OLD = "old"
MARGIN = 1.0  # points of chrF


@dataclass(frozen=True)
class Evidence:
    """The gain of a new vocabulary, initialised by `mean`, over the old one with a number of pairs.

    Attributes:
        bleu: In points: the mean and its 95 % interval.
        p: Two-sided, of BLEU.
        chrf: In points.
        section: Of docs/results.md.
    """

    pairs: int
    bleu: tuple[float, float, float]
    p: float
    chrf: float
    section: str

    @property
    def certain(self) -> bool:
        """Whether the gain is significant."""
        return self.bleu[1] > 0

    @property
    def sentence(self) -> str:
        mean, low, high = self.bleu
        worth = "brought" if self.certain else "brought a difference that is not significant:"
        return (
            f"The nearest that was measured is {self.pairs:,} pairs of a translation ({self.section}). A "
            f"vocabulary of the task's own, new rows initialised with `{INITIALISER}`, {worth} "
            f"{mean:+.2f} BLEU [{low:+.2f}, {high:+.2f}] "
            f"(p = {self.p:g}) and {self.chrf:+.1f} chrF there."
        )


EVIDENCE = (
    Evidence(2_000, (3.11, 1.31, 4.94), 0.031, 2.9, "A model that translates"),
    Evidence(15_000, (5.86, 4.78, 6.95), 0.003, 5.7, "A model that translates"),
)
# Over the old vocabulary, with 2,000 pairs: "Replaced, extended or trimmed".
EXTENDED_CHRF, TRIMMED_CHRF = 1.6, -0.3


@dataclass(frozen=True)
class Prior:
    """Test chrF of systems on one shift with one number of pairs.

    Attributes:
        shift: The upstream and the downstream corpus.
        frozen: Whether embeddings were not trained.
        chrf: By system, with OLD and INITIALISER among them.
        page: Where it is documented, under docs/.
    """

    shift: str
    pairs: int
    frozen: bool
    chrf: Mapping[str, float]
    page: str = ""


_ITDOCS, _LAWS = "tatoeba → Python documentation, English to French", "tatoeba → Canadian Acts, English to French"
_ITDOCS_BACK, _LAWS_BACK = (shift.replace("English to French", "French to English") for shift in (_ITDOCS, _LAWS))
_FEW_PAIRS, _TRANSLATOR = "measurements/few-pairs.md", "measurements/translator.md"
# New subwords shorten the target's sentences by 30 to 40 % in all of them.
PRIORS = (
    Prior(_ITDOCS, 500, False, {OLD: 23.7, "mean": 25.4, "network": 25.1}, _FEW_PAIRS),
    Prior(_ITDOCS, 2000, False, {OLD: 20.9, "mean": 24.3, "network": 23.6, "vocadt": 25.5}, _FEW_PAIRS),
    Prior(_ITDOCS, 8000, False, {OLD: 22.9, "mean": 25.0, "network": 24.6}, _FEW_PAIRS),
    Prior(_LAWS, 2000, False, {OLD: 21.9, "mean": 23.5, "network": 24.0}, _FEW_PAIRS),
    Prior(_ITDOCS_BACK, 500, False, {OLD: 27.4, "mean": 27.3}, _TRANSLATOR),
    Prior(_ITDOCS_BACK, 2000, False, {OLD: 26.9, "mean": 29.8, "random-matched": 26.9}, _TRANSLATOR),
    Prior(_ITDOCS_BACK, 2000, True, {OLD: 24.5, "mean": 21.7, "random-matched": 20.2}, _TRANSLATOR),
    Prior(_LAWS_BACK, 500, False, {OLD: 27.9, "mean": 27.9}, _TRANSLATOR),
    Prior(_LAWS_BACK, 2000, False, {OLD: 27.0, "mean": 30.7}, _TRANSLATOR),
    Prior(_LAWS_BACK, 2000, True, {OLD: 23.6, "mean": 20.3}, _TRANSLATOR),
)


@dataclass(frozen=True)
class Recommendation:
    """A system, its mean gain over OLD in points of chrF, and the priors that it follows from."""

    system: str
    gain: float
    priors: tuple[Prior, ...]


def recommend(priors: Iterable[Prior], pairs: int, *, frozen: bool = False) -> Recommendation:
    """The system for a number of pairs: of each shift, the prior with the nearest number counts.

    Of the systems, only those that all of the nearest priors have can be recommended.

    Args:
        priors: With one or more of this `frozen`.
    """
    by_shift: dict[str, list[Prior]] = {}
    for prior in priors:
        if prior.frozen == frozen:
            by_shift.setdefault(prior.shift, []).append(prior)
    nearest = tuple(min(each, key=lambda prior: _ratio(prior.pairs, pairs)) for each in by_shift.values())
    systems = [name for name in nearest[0].chrf if all(name in prior.chrf for prior in nearest)]
    gains = {name: fmean(prior.chrf[name] - prior.chrf[OLD] for prior in nearest) for name in systems}
    best = max(gains, key=gains.__getitem__)
    system = best if gains[best] > gains[INITIALISER] + MARGIN else INITIALISER
    return Recommendation(system, gains[system], nearest)


def evidence_for(lines: int) -> Evidence:
    """The measurement with the nearest amount of text."""
    return min(EVIDENCE, key=lambda each: _ratio(each.pairs, lines))


def advice(lines: int, continues: bool) -> str:
    """What the measurements recommend for an amount of text; `continues`: whether the model continues text."""
    others = (
        f"On a weaker model, with 2,000 pairs, a vocabulary extended by 2,000 subwords brought {EXTENDED_CHRF:+.1f} "
        f"chrF and a trimmed one {TRIMMED_CHRF:+.1f}; neither is significant."
    )
    sentences = [evidence_for(lines).sentence, _start(lines, frozen=False), _start(lines, frozen=True), others]
    sentences += ["A model that is used for other text too had better be extended."] if continues else []
    return " ".join(sentences)


def _start(lines: int, *, frozen: bool) -> str:
    """The recommended system of the priors, in a sentence."""
    recommended = recommend(PRIORS, lines, frozen=frozen)
    compared = "; ".join(f"{prior.pairs:,} pairs of {prior.shift}" for prior in recommended.priors)
    opening = "Where embeddings stay frozen" if frozen else "Where embeddings are trained"
    if recommended.system == OLD:
        return f"{opening}, the old vocabulary was better ({compared})."
    return (
        f"{opening}, `{recommended.system}` is recommended: {recommended.gain:+.1f} chrF over the old vocabulary "
        f"({compared})."
    )


def _ratio(pairs: int, others: int) -> float:
    """How far two amounts of text are from each other, as a ratio."""
    return abs(math.log(pairs / max(1, others)))
