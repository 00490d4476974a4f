"""Systems over their seeds: what is averaged, what is compared, and with what correction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.sentence_statistics import sentence_statistics
from subgraft.evaluation.metrics.significance import compare, holm
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.summary import summarise


def without_seed(data: ReportData, name: str, seed: int) -> tuple[SystemResult, ...]:
    return tuple(system for system in data.systems if (system.name, system.seed) != (name, seed))


def test_means_are_over_seeds_and_systems_keep_their_order(report_data: ReportData) -> None:
    summaries = summarise(report_data)
    assert [system.name for system in summaries] == ["pretrain-finetune", "random", "mean", "AVG", "PATT+KD"]
    for summary in summaries:
        results = report_data.results(summary.name)
        assert summary.seeds == (1, 2)
        assert summary.metrics["BLEU"].mean == pytest.approx(np.mean([r.scores["BLEU"].value for r in results]))
        assert summary.sentences_per_second == pytest.approx(np.mean([r.sentences_per_second for r in results]))
        assert summary.inference_ece == pytest.approx(np.mean([r.inference_ece for r in results]))
        assert summary.cost.finetuning == pytest.approx(np.mean([r.cost.finetuning for r in results]))


def test_intervals_hold_the_mean_and_differences_add_up(report_data: ReportData) -> None:
    baseline, *others = summarise(report_data)
    assert baseline.metrics["BLEU"].comparison is None
    for system in others:
        for metric, summary in system.metrics.items():
            assert summary.interval.low < summary.mean < summary.interval.high
            assert summary.comparison is not None
            assert summary.comparison.difference == pytest.approx(summary.mean - baseline.metrics[metric].mean)


def test_p_values_are_corrected_over_the_systems_of_a_metric(report_data: ReportData) -> None:
    statistics = {
        name: np.stack(
            [
                sentence_statistics("chrF", system.hypotheses, report_data.references, "de")
                for system in report_data.results(name)
            ]
        )
        for name in report_data.system_names
    }
    baseline, *others = report_data.system_names
    raw = [compare("chrF", statistics[name], statistics[baseline]).p_value for name in others]
    shown = [system.metrics["chrF"].comparison for system in summarise(report_data)[1:]]
    assert [comparison.p_value for comparison in shown if comparison] == pytest.approx(holm(raw))
    assert holm(raw) != raw
    assert [comparison.p_alone for comparison in shown if comparison] == raw, "to which the intervals belong"
    two = replace(report_data, systems=tuple(report_data.results(baseline) + report_data.results(others[0])))
    (single,) = (system.metrics["chrF"].comparison for system in summarise(two)[1:])
    assert single is not None and (single.p_value, single.p_alone) == (raw[0], None), "nothing is corrected"


def test_bits_are_taken_at_the_start_after_an_epoch_and_of_the_kept_weights(report_data: ReportData) -> None:
    selected = {1: 150, 2: 300}
    systems = tuple(replace(system, selected_step=selected[system.seed]) for system in report_data.systems)
    bits = summarise(replace(report_data, systems=systems))[0].bits
    curves = [system.curve for system in report_data.results("pretrain-finetune")]
    assert bits.start == pytest.approx(np.mean([curve[0].dev_bits_per_character or 0.0 for curve in curves]))
    assert bits.first_epoch == pytest.approx(np.mean([curve[2].dev_bits_per_character or 0.0 for curve in curves]))
    ends = [curves[0][3].dev_bits_per_character or 0.0, curves[1][6].dev_bits_per_character or 0.0]
    assert [curves[0][3].step, curves[1][6].step] == [150, 300]
    assert bits.selected == pytest.approx(np.mean(ends))


def test_a_calibration_that_one_seed_lacks_is_not_averaged(report_data: ReportData) -> None:
    systems = tuple(replace(system, measurements=()) if system.seed == 2 else system for system in report_data.systems)
    assert summarise(replace(report_data, systems=systems))[0].inference_ece is None


def test_fewer_edits_show_as_a_negative_difference(report_data: ReportData) -> None:
    best = summarise(report_data)[-1]
    bleu, ter = (best.metrics[metric].comparison for metric in ("BLEU", "TER"))
    assert bleu is not None and ter is not None
    assert bleu.difference > 0 > ter.difference


def test_a_system_is_compared_on_the_seeds_it_shares_with_the_baseline(report_data: ReportData) -> None:
    partial = replace(report_data, systems=without_seed(report_data, "mean", 2))
    mean = next(system for system in summarise(partial) if system.name == "mean")
    comparison = mean.metrics["BLEU"].comparison
    assert comparison is not None
    assert comparison.seeds == 1
    scores = {system.name: system.scores["BLEU"].value for system in report_data.systems if system.seed == 1}
    assert comparison.difference == pytest.approx(scores["mean"] - scores["pretrain-finetune"])


def test_without_a_baseline_nothing_is_compared(report_data: ReportData) -> None:
    alone = summarise(replace(report_data, baseline=None))
    assert all(system.metrics["BLEU"].comparison is None for system in alone)


def test_missing_outputs_are_reported_with_both_counts(report_data: ReportData) -> None:
    short = replace(report_data.systems[0], hypotheses=report_data.systems[0].hypotheses[:-1])
    with pytest.raises(UserError, match="239 hypotheses but 240 references"):
        summarise(replace(report_data, systems=(short, *report_data.systems[1:])))
    with pytest.raises(UserError, match="no results"):
        summarise(replace(report_data, systems=()))
