"""Auxiliary metrics over a system's seeds: calibration, forgetting, intrinsic quality, likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean

import numpy as np

from subgraft.evaluation.metrics.calibration import Bin
from subgraft.evaluation.metrics.significance import Comparison, compare
from subgraft.evaluation.metrics.token_classes import Bits, Likelihood
from subgraft.evaluation.reporting.records import Intrinsic, SystemResult


@dataclass(frozen=True)
class ForgettingSummary:
    """BLEU on the upstream test set. before, change: None for a system whose model was not pretrained."""

    before: float | None
    after: float
    change: Comparison | None


def summarise_forgetting(results: Sequence[SystemResult], samples: int, seed: int) -> ForgettingSummary | None:
    """Before and after, with a paired bootstrap of the difference; None unless every seed was measured.

    All seeds of a system start from one model, so the score before finetuning does not depend on the seed.
    """
    found = [result.forgetting for result in results if result.forgetting is not None]
    if len(found) != len(results):
        return None
    after = fmean(each.after.value for each in found)
    before = [each.before.value for each in found if each.before is not None]
    statistics = [each.before_statistics for each in found if each.before_statistics is not None]
    if len(before) != len(found) or len(statistics) != len(found):
        return ForgettingSummary(None, after, None)
    stacked = np.stack([each.after_statistics for each in found])
    change = compare("BLEU", stacked, np.stack(statistics), samples=samples, seed=seed)
    return ForgettingSummary(fmean(before), after, change)


def mean_intrinsic(results: Sequence[SystemResult]) -> Mapping[str, Intrinsic]:
    """By side, the means over seeds; empty unless every seed was measured."""
    sides = dict.fromkeys(side for result in results for side in result.intrinsic)
    found = {side: [result.intrinsic[side] for result in results if side in result.intrinsic] for side in sides}
    return {side: _mean(each) for side, each in found.items() if len(each) == len(results)}


def _mean(found: Sequence[Intrinsic]) -> Intrinsic:
    means = {each.name: fmean(getattr(one, each.name) for one in found) for each in fields(Intrinsic)[1:]}
    return Intrinsic(found[0].tokens, **means)


def mean_likelihood(results: Sequence[SystemResult]) -> Likelihood | None:
    """Bits as means over seeds, which all read the same references; None unless every seed was measured."""
    found = [result.likelihood for result in results if result.likelihood is not None]
    if len(found) != len(results):
        return None
    return replace(
        found[0],
        bits=fmean(each.bits for each in found),
        end_bits=fmean(each.end_bits for each in found),
        tokens=_mean_bits([each.tokens for each in found]),
        stretches=_mean_bits([each.stretches for each in found]),
    )


def _mean_bits(found: Sequence[Mapping[str, Bits]]) -> dict[str, Bits]:
    return {name: replace(bits, bits=fmean(each[name].bits for each in found)) for name, bits in found[0].items()}


def pooled_bins(results: Sequence[SystemResult]) -> tuple[Bin, ...]:
    """The bins of all seeds together, every token counting once; empty unless all seeds have them."""
    if not all(result.bins for result in results):
        return ()
    return tuple(_pooled(bins) for bins in zip(*(result.bins for result in results), strict=True))


def _pooled(bins: Sequence[Bin]) -> Bin:
    count = sum(each.count for each in bins)

    def mean(values: Sequence[float | None]) -> float | None:
        return (
            sum((value or 0.0) * each.count for value, each in zip(values, bins, strict=True)) / count
            if count
            else None
        )

    confidence = mean([each.confidence for each in bins])
    return Bin(bins[0].low, bins[0].high, count, confidence, mean([each.accuracy for each in bins]))
