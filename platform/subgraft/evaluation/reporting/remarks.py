"""Remarks beside figures: what a difference shows, and which finetunings changed nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from subgraft.evaluation.metrics.significance import FEWEST_SEEDS, LEVEL, Claim, Comparison
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.numbers import equals
from subgraft.evaluation.reporting.summary import summarise

_VERDICTS: Mapping[Claim, str] = {
    Claim.SIGNIFICANT: "significant",
    Claim.NOT_SIGNIFICANT: "not significant",
    Claim.TOO_FEW_SEEDS: "on too few seeds to call it significant",
    Claim.OUTPUTS_DIFFER: "in these outputs of one seed more than the choice of sentences explains",
    Claim.OUTPUTS_ALIKE: "in these outputs of one seed no more than the choice of sentences explains",
}
# How many systems are grouped by it; {} is "higher" or "lower".
_GROUPS: Mapping[Claim, str] = {
    Claim.SIGNIFICANT: "significantly {}",
    Claim.NOT_SIGNIFICANT: "not significantly different",
    Claim.TOO_FEW_SEEDS: "{}, on too few seeds to call it significant",
    Claim.OUTPUTS_DIFFER: "{} in these outputs of one seed, by more than the choice of sentences explains",
    Claim.OUTPUTS_ALIKE: "in these outputs of one seed no more apart than the choice of sentences explains",
}


def verdict(comparison: Comparison, level: float = LEVEL) -> str:
    """What a difference shows, with its p-value."""
    return f"{_VERDICTS[comparison.claim(level)]} (p {equals(comparison.p_value)})"


def group(comparison: Comparison) -> str:
    """What systems have in common of whose differences the same may be said."""
    return _GROUPS[comparison.claim()].format("higher" if comparison.difference > 0 else "lower")


def remarks(data: ReportData) -> list[str]:
    """Remarks on the scores as a whole."""
    not_trained = untrained(data)
    return [*few_seeds(data), *([not_trained] if not_trained else [])]


def few_seeds(data: ReportData) -> list[str]:
    """What the report's intervals and p-values are worth on so few seeds."""
    return on_few_seeds({system.name: system.compared_seeds for system in summarise(data)})


def on_few_seeds(seeds: Mapping[str, int]) -> list[str]:
    """What intervals and p-values are worth of systems with fewer than three seeds; nothing where all have more."""
    said = {
        1: "On one seed{}, intervals and p-values are of these outputs; whether another seed would agree is not known.",
        2: f"On two seeds{{}} nothing is called significant: that takes {FEWEST_SEEDS}.",
    }
    found = []
    for few, remark in said.items():
        named = [name for name, number in seeds.items() if number == few]
        which = "" if len(named) == len(seeds) else f" ({', '.join(named)})"
        found += [remark.format(which)] if named else []
    return found


def untrained(data: ReportData) -> str | None:
    """Which systems were best on dev before any training; None where all finetunings brought something."""
    seeds: dict[str, list[int]] = {}
    for system in data.systems:
        if system.kept_step == 0:
            seeds.setdefault(system.name, []).append(system.seed)
    if not seeds:
        return None
    named = "; ".join(f"{name}, {_seeds(found)}" for name, found in seeds.items())
    return f"Best on dev before any training, so that these are scores of models that are not finetuned: {named}."


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, sorted(seeds)))}"
