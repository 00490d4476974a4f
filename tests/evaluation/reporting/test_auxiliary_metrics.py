"""Auxiliary metrics over seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subgraft.evaluation.metrics.calibration import Bin
from subgraft.evaluation.metrics.token_classes import Bits, Likelihood
from subgraft.evaluation.reporting.records import Intrinsic, ReportData
from subgraft.evaluation.reporting.summary import (
    mean_intrinsic,
    mean_likelihood,
    pooled_bins,
    summarise_forgetting,
)


def test_forgetting_is_the_difference_of_means_with_an_interval(wide_data: ReportData) -> None:
    results = wide_data.results("mean")
    other = wide_data.results("focus")
    # Before: the outputs of another system, whose score their statistics give.
    changed = [
        replace(
            one,
            forgetting=replace(
                one.forgetting,  # type: ignore[type-var]
                after=one.scores["BLEU"],
                before=two.scores["BLEU"],
                before_statistics=two.statistics["BLEU"],
            ),
        )
        for one, two in zip(results, other, strict=True)
    ]
    summary = summarise_forgetting(changed, samples=50, seed=1)
    assert summary is not None and summary.change is not None and summary.before is not None
    assert summary.change.difference == pytest.approx(summary.after - summary.before)
    assert summary.change.interval.low < summary.change.difference < summary.change.interval.high


def test_a_system_from_nothing_forgets_nothing_and_a_missing_seed_is_not_averaged(wide_data: ReportData) -> None:
    single = summarise_forgetting(wide_data.results("single-run"), 50, 1)
    assert single is not None and single.before is None and single.change is None
    first, *others = wide_data.results("mean")
    assert summarise_forgetting([replace(first, forgetting=None), *others], 50, 1) is None


def test_bins_are_pooled_token_by_token(wide_data: ReportData) -> None:
    first, second, _ = wide_data.results("mean")
    one = replace(first, bins=(Bin(0, 0.5, 3, 0.2, 1.0), Bin(0.5, 1, 0, None, None)))
    two = replace(second, bins=(Bin(0, 0.5, 1, 0.4, 0.0), Bin(0.5, 1, 2, 0.8, 0.5)))
    low, high = pooled_bins([one, two])
    assert (low.count, low.confidence, low.accuracy) == pytest.approx((4, 0.25, 0.75))
    assert (high.count, high.confidence, high.accuracy) == pytest.approx((2, 0.8, 0.5))
    assert pooled_bins([one, replace(two, bins=())]) == ()


def test_intrinsic_quality_is_averaged_by_side(wide_data: ReportData) -> None:
    first, second, _ = wide_data.results("mean")
    one = replace(first, intrinsic={"decoder": Intrinsic(9, 0.2, 0.1, 0.5, 0.25, 0.75)})
    two = replace(second, intrinsic={"decoder": Intrinsic(9, 0.4, 0.3, 0.1, 0.75, 0.25)})
    quality = mean_intrinsic([one, two])["decoder"]
    assert quality.tokens == 9
    assert (quality.cosine, quality.median_cosine, quality.reciprocal_rank) == pytest.approx((0.3, 0.2, 0.3))
    assert (quality.hits_at_1, quality.hits_at_10) == pytest.approx((0.5, 0.5))
    assert mean_intrinsic([one, replace(two, intrinsic={})]) == {}


def test_likelihood_is_averaged_class_by_class(wide_data: ReportData) -> None:
    first, second, _ = wide_data.results("mean")

    def likelihood_of(bits: float) -> Likelihood:
        return Likelihood(9, 0, 100, 2 * bits, 1.0, {"0": Bits(2, 8, 1, bits)}, {"seen": Bits(3, 90, 0, bits + 1)})

    mean = mean_likelihood(
        [replace(first, likelihood=likelihood_of(50)), replace(second, likelihood=likelihood_of(60))]
    )
    assert mean is not None
    assert mean.bits_per_character == pytest.approx(1.1)
    assert mean.tokens == {"0": Bits(2, 8, 1, 55)}
    assert mean.stretches == {"seen": Bits(3, 90, 0, 56)}
    assert mean_likelihood([replace(first, likelihood=likelihood_of(50)), replace(second, likelihood=None)]) is None
