"""Records of measurements as means over seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subgraft.evaluation.metrics.calibration import Bin, Calibration
from subgraft.evaluation.metrics.token_classes import Bits, Likelihood
from subgraft.evaluation.reporting.records import ReportData
from subgraft.pipeline.measurements.calibration import pooled_bins
from subgraft.pipeline.measurements.forgetting import Forgetting, summarise_forgetting
from subgraft.pipeline.measurements.intrinsic import Intrinsic, IntrinsicQuality, mean_quality
from subgraft.pipeline.measurements.likelihood import mean_likelihood


def test_forgetting_is_the_difference_of_means_with_an_interval(wide_data: ReportData) -> None:
    # Before: the outputs of another system, whose score their statistics give.
    pairs = zip(wide_data.results("mean"), wide_data.results("focus"), strict=True)
    by_seed = [
        Forgetting(one.scores["BLEU"], one.statistics["BLEU"], two.scores["BLEU"], two.statistics["BLEU"])
        for one, two in pairs
    ]
    summary = summarise_forgetting(by_seed, samples=50, seed=1)
    assert summary.change is not None and summary.before is not None
    assert summary.change.difference == pytest.approx(summary.after - summary.before)
    assert summary.change.interval.low < summary.change.difference < summary.change.interval.high


def test_a_system_from_nothing_forgets_nothing_and_a_missing_seed_is_not_averaged(wide_data: ReportData) -> None:
    single = summarise_forgetting(wide_data.measured(Forgetting)["single-run"], 50, 1)
    assert single.before is None and single.change is None
    first, *others = wide_data.systems
    assert first.name in wide_data.measured(Forgetting)
    lacking = replace(wide_data, systems=(replace(first, measurements=()), *others))
    assert wide_data.measured(Forgetting).keys() - lacking.measured(Forgetting).keys() == {first.name}


def test_bins_are_pooled_token_by_token() -> None:
    one, two = (
        Calibration(0.0, 0.5, 0.5, 0, bins)
        for bins in (
            (Bin(0, 0.5, 3, 0.2, 1.0), Bin(0.5, 1, 0, None, None)),
            (Bin(0, 0.5, 1, 0.4, 0.0), Bin(0.5, 1, 2, 0.8, 0.5)),
        )
    )
    low, high = pooled_bins([one, two])
    assert (low.count, low.confidence, low.accuracy) == pytest.approx((4, 0.25, 0.75))
    assert (high.count, high.confidence, high.accuracy) == pytest.approx((2, 0.8, 0.5))
    assert pooled_bins([one, replace(two, bins=())]) == ()


def test_intrinsic_quality_is_averaged_by_side() -> None:
    one = Intrinsic({"decoder": IntrinsicQuality(9, 0.2, 0.1, 0.5, 0.25, 0.75)})
    two = Intrinsic({"decoder": IntrinsicQuality(9, 0.4, 0.3, 0.1, 0.75, 0.25)})
    quality = mean_quality([one, two])["decoder"]
    assert quality.tokens == 9
    assert (quality.cosine, quality.median_cosine, quality.reciprocal_rank) == pytest.approx((0.3, 0.2, 0.3))
    assert (quality.hits_at_1, quality.hits_at_10) == pytest.approx((0.5, 0.5))
    assert mean_quality([one, Intrinsic({})]) == {}


def test_likelihood_is_averaged_class_by_class() -> None:
    def likelihood_of(bits: float) -> Likelihood:
        return Likelihood(9, 0, 100, 2 * bits, 1.0, {"0": Bits(2, 8, 1, bits)}, {"seen": Bits(3, 90, 0, bits + 1)})

    mean = mean_likelihood([likelihood_of(50), likelihood_of(60)])
    assert mean.bits_per_character == pytest.approx(1.1)
    assert mean.tokens == {"0": Bits(2, 8, 1, 55)}
    assert mean.stretches == {"seen": Bits(3, 90, 0, 56)}
