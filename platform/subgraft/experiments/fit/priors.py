"""Recommendations for a new task from measurements on other tasks: by pairs, subword gap, and trained parameters.

A `Prior` has the test chrF of several systems, mostly of one seed. With few pairs, seeds of one system differ by about
a point of chrF, so `mean` is recommended unless another system was ahead of it by more. studies/judged_advice.py
evaluates that rule on each shift with the priors of the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

OLD = "old"
# The recommendation if no other initialiser was ahead, or those that were cannot be used.
INITIALISER = "mean"
MARGIN = 1.0  # points of chrF
# The largest difference between the (logarithmic) distances of gaps that count as similar.
MAX_GAP_DIFFERENCE = 0.2


class Gain(NamedTuple):
    """BLEU of INITIALISER over OLD, three seeds: the mean, its 95 % interval, and p (two-sided)."""

    mean: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"BLEU {self.mean:+.2f} [{self.low:.2f}, {self.high:.2f}], p = {self.p:g}"


# Over the old vocabulary, with 2,000 pairs: "Replaced, extended or trimmed".
EXTENDED_CHRF, TRIMMED_CHRF = 1.6, -0.3


class Shift(NamedTuple):
    """An upstream and a downstream corpus, and target tokens of the new vocabulary for one of the old."""

    name: str
    tokens_ratio: float

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Prior:
    """Test chrF of systems on one shift with one number of pairs.

    Attributes:
        chrf: By OLD or the initialiser of the new embeddings, with OLD and INITIALISER among them.
        bleu: Where it was measured with three seeds.
        frozen: Whether embeddings were not trained.
    """

    shift: Shift
    pairs: int
    chrf: Mapping[str, float]
    bleu: Gain | None = None
    frozen: bool = False

    def __str__(self) -> str:
        gain = "" if self.bleu is None else f": `{INITIALISER}` {self.bleu}"
        return f"{self.pairs:,} pairs of {self.shift}{gain}"


_ITDOCS = Shift("tatoeba → Python documentation, French to English", 0.61)
_ITDOCS_FR = Shift("tatoeba → Python documentation, English to French", 0.60)
_ITDOCS_ZH = Shift("tatoeba → Python documentation, English to Chinese", 0.58)
_LAWS = Shift("tatoeba → Canadian Acts, French to English", 0.57)
_NO_SHIFT = Shift("tatoeba → tatoeba, French to English", 0.91)
# docs/measurements/translator.md and starts-on-a-translator.md: one vocabulary for both sides, on a model that
# translates the upstream text.
PRIORS = (
    Prior(_ITDOCS, 500, {OLD: 27.8, "mean": 27.3, "vocadt": 26.5}, Gain(1.71, 0.81, 2.62, 0.025)),
    Prior(
        *(_ITDOCS, 2000),
        {OLD: 26.9, "mean": 29.8, "random-matched": 26.9, "vocadt": 31.4},
        Gain(3.11, 1.31, 4.94, 0.031),
    ),
    Prior(_ITDOCS, 15_000, {OLD: 31.0, "mean": 37.0, "vocadt": 38.1}, Gain(6.19, 5.23, 7.16, 0.004)),
    Prior(_ITDOCS, 2000, {OLD: 24.5, "mean": 21.7, "random-matched": 20.2}, frozen=True),
    Prior(_LAWS, 500, {OLD: 27.9, "mean": 27.9}),
    Prior(_LAWS, 2000, {OLD: 27.0, "mean": 30.7, "vocadt": 31.9}, Gain(3.87, 2.02, 5.77, 0.013)),
    Prior(_LAWS, 16_000, {OLD: 28.7, "mean": 34.8, "vocadt": 36.6}, Gain(6.01, 4.76, 7.28, 0.003)),
    Prior(_LAWS, 2000, {OLD: 23.6, "mean": 20.3}, frozen=True),
    Prior(
        *(_ITDOCS_FR, 2000),
        {OLD: 26.8, "mean": 31.2, "random-matched": 28.4, "vocadt": 33.3},
        Gain(2.70, 1.34, 4.08, 0.017),
    ),
    Prior(_ITDOCS_FR, 15_000, {OLD: 28.9, "mean": 36.8, "vocadt": 38.5}, Gain(5.12, 4.36, 5.95, 0.002)),
    Prior(
        *(_ITDOCS_ZH, 2000),
        {OLD: 8.5, "mean": 10.2, "random-matched": 8.8, "vocadt": 11.0},
        Gain(0.78, 0.19, 1.38, 0.041),
    ),
    Prior(_ITDOCS_ZH, 36_370, {OLD: 10.9, "mean": 15.3}, Gain(3.11, 1.99, 4.25, 0.007)),
    Prior(_NO_SHIFT, 2000, {OLD: 58.1, "mean": 45.9}),
)

# docs/measurements/pretrained-language-model.md.
LANGUAGE_MODEL = (
    "Extend the vocabulary by few subwords that are frequent, if fewer tokens are worth a small loss, and measure the "
    "loss with `subgraft fit`. Of SmolLM2 (135 million parameters, mostly English text), with `fitted` embeddings: in "
    "Ewe, which it hardly knows, 417 subwords saved 44 % of the tokens, and the model was ahead of its old vocabulary "
    "in each of three seeds after 200,000 characters of training (0.03 bits per character; 0.02 behind one whose old "
    "embeddings learned faster), 0.01 behind after a million, and ahead at equal seconds of training; in Chinese "
    "documentation 740 saved 42 %, and it was 0.45 behind after 100,000; in Gujarati 173 saved 73 %, and it was 0.20 "
    "behind after 60,000, and ahead at equal seconds; in French documentation 329 saved 18 %, and it was 0.02 to 0.03 "
    "behind after 300,000."
)


@dataclass(frozen=True)
class Recommendation:
    """A system, its mean gain over OLD in points of chrF, and the priors that it follows from."""

    system: str
    gain: float
    priors: tuple[Prior, ...]


def recommend(
    priors: Iterable[Prior],
    pairs: int,
    *,
    tokens_ratio: float | None = None,
    frozen: bool = False,
    excluded: Collection[str] = (),
) -> Recommendation:
    """Recommend a system, from the shifts with the most similar gap.

    Of each shift the prior with the nearest number of pairs counts. Only systems that most of these priors have can be
    recommended; each is compared with INITIALISER on the priors that have it.

    Args:
        priors: Measurements; at least one must be of this `frozen`.
        pairs: The number of training pairs.
        tokens_ratio: Target tokens of the new vocabulary for one of the old; None if unknown, so that all gaps count.
        frozen: Whether embeddings are not trained.
        excluded: Systems that cannot be used.
    """
    by_shift: dict[Shift, list[Prior]] = {}
    for prior in priors:
        if prior.frozen == frozen:
            by_shift.setdefault(prior.shift, []).append(prior)
    nearest = tuple(
        min(shift_priors, key=lambda prior: _log_ratio(prior.pairs, pairs)) for shift_priors in by_shift.values()
    )
    if tokens_ratio is not None:
        distances = [_log_ratio(prior.shift.tokens_ratio, tokens_ratio) for prior in nearest]
        limit = min(distances) + MAX_GAP_DIFFERENCE
        nearest = tuple(prior for prior, distance in zip(nearest, distances, strict=True) if distance <= limit)
    by_system = {
        name: [prior.chrf for prior in nearest if name in prior.chrf] for prior in nearest for name in prior.chrf
    }
    common = {name: scores for name, scores in by_system.items() if 2 * len(scores) > len(nearest)}
    advantages = {
        name: fmean(chrf[name] - chrf[INITIALISER] for chrf in scores)
        for name, scores in common.items()
        if name not in excluded
    }
    best = max(advantages, key=advantages.__getitem__)
    system = best if advantages[best] > MARGIN else INITIALISER
    return Recommendation(system, fmean(chrf[system] - chrf[OLD] for chrf in common[system]), nearest)


def advice(lines: int, tokens_ratio: float, *, continues: bool) -> str:
    """Advice for an amount of text and a gap; `continues`: whether the model continues text."""
    if continues:
        return LANGUAGE_MODEL
    others = (
        f"On a weaker model, with 2,000 pairs, a vocabulary extended by 2,000 subwords brought {EXTENDED_CHRF:+.1f} "
        f"chrF and a trimmed one {TRIMMED_CHRF:+.1f}; neither is significant."
    )
    trained, frozen = (recommendation(lines, tokens_ratio, frozen=kind) for kind in (False, True))
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}" for sentence in (trained, frozen, others))


def recommendation(lines: int, tokens_ratio: float, *, frozen: bool = False, excluded: Collection[str] = ()) -> str:
    """The recommended system of the priors, in a sentence."""
    recommended = recommend(PRIORS, lines, tokens_ratio=tokens_ratio, frozen=frozen, excluded=excluded)
    compared = "; ".join(map(str, recommended.priors))
    opening = "where embeddings stay frozen" if frozen else "where embeddings are trained"
    if recommended.system == OLD:
        return f"{opening}, the old vocabulary was better ({compared})."
    gain = round(recommended.gain, 1) + 0.0  # never -0.0
    return f"{opening}, `{recommended.system}` is recommended: {gain:+.1f} chrF over the old vocabulary ({compared})."


def initialiser_for(pairs: int, tokens_ratio: float | None, excluded: Collection[str] = ()) -> str:
    """The initialiser of the new vocabulary, also where the old one was better."""
    system = recommend(PRIORS, pairs, tokens_ratio=tokens_ratio, excluded=excluded).system
    return INITIALISER if system == OLD else system


def _log_ratio(value: float, other: float) -> float:
    """The distance of two amounts: the absolute logarithm of their ratio."""
    return abs(math.log(value / max(1e-9, other)))
