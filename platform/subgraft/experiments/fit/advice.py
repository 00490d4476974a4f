"""Which model to take, in one sentence, by the same rules as the report speaks of differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from subgraft.config.settings_base import MetricName
from subgraft.evaluation.metrics.significance import FEWEST_SEEDS, LEVEL, Comparison
from subgraft.evaluation.reporting.numbers import fixed, interval, signed
from subgraft.evaluation.reporting.remarks import verdict


@dataclass(frozen=True)
class Advice:
    """system: the one to take.  sentence: why, for people."""

    system: str
    sentence: str


@dataclass(frozen=True)
class Contender:
    """A system, and how many tokens of its vocabulary a target sentence takes."""

    name: str
    tokens_per_sentence: float


def advise(old: Contender, own: Contender, compared: Mapping[MetricName, Comparison]) -> Advice:
    """Whether the own vocabulary is to take the old one's place.

    It is where BLEU or chrF is higher by more than luck explains, as far as the seeds can tell, and neither is lower by
    as much. Where nothing is told apart, the old vocabulary stays: with it nothing else has to change.

    compared: the own vocabulary against the old one, by metric.
    """
    better, worse = (side in map(_standing, compared.values()) for side in (1, -1))
    taken = own if better and not worse else old
    tokens = f"a target sentence takes {fixed(own.tokens_per_sentence, 1)} tokens of the own vocabulary, "
    tokens += f"{fixed(old.tokens_per_sentence, 1)} of the old one"
    sentence = f"{_opening(better, worse)}: {_differences(compared)}; {tokens}."
    return Advice(taken.name, sentence + _doubt(compared))


def _standing(comparison: Comparison) -> int:
    """1 where it is ahead by more than luck explains, -1 where it is behind by as much, else 0."""
    if comparison.p_value >= LEVEL:
        return 0
    return 1 if comparison.difference > 0 else -1


def _opening(better: bool, worse: bool) -> str:
    if better and not worse:
        return "Take the model with a vocabulary of its own"
    if worse and not better:
        return "Keep the old vocabulary, with one of its own scores are lower"
    if worse:
        return "Keep the old vocabulary, the scores contradict each other"
    return "Keep the old vocabulary, in quality the two are not told apart"


def _differences(compared: Mapping[MetricName, Comparison]) -> str:
    """Of every metric, the own vocabulary's difference from the old one's."""
    told = (
        f"{name} {signed(each.difference)} {interval(each.interval)}, {verdict(each)}"
        for name, each in compared.items()
    )
    return "; ".join(told)


def _doubt(compared: Mapping[MetricName, Comparison]) -> str:
    """What more seeds would tell, where there are too few."""
    seeds = min((each.seeds for each in compared.values()), default=FEWEST_SEEDS)
    if seeds >= FEWEST_SEEDS:
        return ""
    return f" Whether other seeds would agree is not known: that takes {FEWEST_SEEDS}, as a fit without --quick has."
