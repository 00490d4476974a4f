"""Which system a comparison advises, and which claims its evidence allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from subgraft.evaluation.metrics.significance import Comparison, Interval
from subgraft.evaluation.reporting.answer import Answer, Contender, answer_by_bits, answer_by_scores
from subgraft.evaluation.reporting.records import ReportData, SelectedScore, TransferSummary
from subgraft.evaluation.reporting.summary import MetricSummary

INTERVAL = Interval(0, 1)


def comparison(difference: float, p_value: float, seeds: int = 3) -> Comparison:
    return Comparison(difference, Interval(difference - 1, difference + 1), p_value, seeds, 200)


def summary(compared: Comparison | None) -> MetricSummary:
    return MetricSummary({1: 20.0}, 20.0, INTERVAL, compared)


def with_dev(data: ReportData, dev: Mapping[str, Sequence[float]], steps: Mapping[str, Sequence[int]]) -> ReportData:
    """Two systems, old and own, with dev scores and selected steps by seed."""
    named = {"old": data.systems[0], "own": data.results("mean")[0]}
    systems = tuple(
        replace(each, name=name, seed=seed, dev=SelectedScore("BLEU", value), selected_step=steps[name][seed - 1])
        for name, each in named.items()
        for seed, value in enumerate(dev[name], start=1)
    )
    return replace(data, systems=systems, baseline="old")


def answered(data: ReportData, bleu: tuple[float, float], chrf: tuple[float, float], seeds: int = 3) -> Answer:
    data = with_dev(data, {"old": [1.0], "own": [2.0]}, {"old": [5], "own": [5]})
    old, scores = summary(None), {"BLEU": comparison(*bleu, seeds), "chrF": comparison(*chrf, seeds)}
    by_metric = {name: {"old": old, "own": summary(each)} for name, each in scores.items()}
    return answer_by_scores(data, by_metric, "a target sentence")


@pytest.mark.parametrize(
    ("bleu", "chrf", "taken", "why"),
    [
        ((2.1, 0.01), (3.6, 0.01), "own", "Take own, which scores better than old"),
        ((0.3, 0.40), (3.6, 0.01), "own", "Take own, which scores better than old"),
        ((0.3, 0.40), (0.6, 0.30), "old", "Keep the old vocabulary, as own does not score better"),
        ((-2.0, 0.01), (0.6, 0.30), "old", "Keep the old vocabulary, as own scores worse"),
        ((2.0, 0.01), (-3.0, 0.01), "old", "contradict each other"),
    ],
)
def test_a_vocabulary_is_advised_where_one_score_is_better_and_none_worse(
    report_data: ReportData, bleu: tuple[float, float], chrf: tuple[float, float], taken: str, why: str
) -> None:
    answer = answered(report_data, bleu, chrf)
    assert (answer.system == taken and answer.sentence.startswith(why)) or why in answer.sentence
    assert "; a target sentence takes 34.3 % fewer tokens (18.0 in place of 27.4)." in answer.sentence


def test_only_what_is_significant_is_called_so(report_data: ReportData) -> None:
    said = answered(report_data, (2.0, 0.01), (0.1, 0.9)).sentence
    assert "BLEU +2.00 [1.00, 3.00], significant; chrF +0.10 [−0.90, 1.10], not significant;" in said
    said = answered(report_data, (2.0, 0.01), (1.0, 0.01)).sentence
    assert "BLEU +2.00 [1.00, 3.00] and chrF +1.00 [0.00, 2.00], significant;" in said


@pytest.mark.parametrize(
    ("seeds", "said", "remark"),
    [(1, "for one seed only", "other seeds may differ"), (2, "too few seeds to call it", "nothing is called")],
)
def test_few_seeds_are_reported_and_nothing_is_called_significant(
    report_data: ReportData, seeds: int, said: str, remark: str
) -> None:
    answer = answered(report_data, (2.0, 0.001), (3.0, 0.001), seeds)
    assert answer.system == "own" and said in answer.sentence and remark in str(answer)
    assert "], significant" not in str(answer)


def test_a_system_that_dev_has_chosen_needs_no_correction_for_the_others(report_data: ReportData) -> None:
    """Its claim agrees with its interval."""
    data = with_dev(report_data, {"old": [1.0], "own": [2.0]}, {"old": [5], "own": [5]})
    corrected = replace(comparison(2.0, 0.08), p_alone=0.02)
    answer = answer_by_scores(data, {"BLEU": {"old": summary(None), "own": summary(corrected)}}, "a sentence")
    assert answer.system == "own" and "BLEU +2.00 [1.00, 3.00], significant;" in answer.sentence


def test_less_is_better_for_some_scores(report_data: ReportData) -> None:
    data = with_dev(report_data, {"old": [1.0], "own": [2.0]}, {"old": [5], "own": [5]})
    scores = {"RMSE": {"old": summary(None), "own": summary(comparison(-0.5, 0.01))}}
    assert answer_by_scores(data, scores, "an example", {"RMSE"}).system == "own"
    assert answer_by_scores(data, scores, "an example").system == "old"


def test_without_a_comparison_the_best_on_dev_is_named(report_data: ReportData) -> None:
    data = with_dev(report_data, {"old": [1.0], "own": [2.0]}, {"old": [5], "own": [5]})
    scores = {"BLEU": {"old": summary(None), "own": summary(None)}}
    answer = answer_by_scores(replace(data, baseline=None), scores, "a target sentence")
    assert answer.system == "own"
    assert answer.sentence == (
        "Best on dev is own: BLEU 20.00 [0.00, 1.00] on the test set; no system is the baseline of a comparison."
    )
    alone = replace(data, systems=data.results("old"))
    assert "no other system was measured" in answer_by_scores(alone, scores, "a target sentence").sentence


@pytest.mark.parametrize(
    ("old", "own", "system", "said"),
    [
        (([2, 3], [5, 5]), ([4, 5], [5, 5]), "old", "Keep the old vocabulary"),
        (([9, 3], [0, 5]), ([4, 5], [5, 5]), "old", "Keep the old vocabulary"),
        (([5, 4], [0, 0]), ([2, 6], [5, 5]), "own", "Take own (BLEU 6.00 on dev), as old learnt nothing (BLEU 4.50)."),
        (([7, 4], [0, 0]), ([2, 6], [5, 5]), None, "Take neither model, and train longer: no finetuning is better"),
        (([7, 4], [0, 0]), ([3, 2], [0, 0]), None, "than old before any training (BLEU 5.50)"),
    ],
)
def test_only_what_was_trained_is_advised(
    report_data: ReportData,
    old: tuple[Sequence[float], Sequence[int]],
    own: tuple[Sequence[float], Sequence[int]],
    system: str | None,
    said: str,
) -> None:
    """By dev scores and selected steps under two seeds; by the test set the old vocabulary would stay."""
    data = with_dev(report_data, {"old": old[0], "own": own[0]}, {"old": old[1], "own": own[1]})
    scores = {"BLEU": {"old": summary(None), "own": summary(comparison(0.1, 0.8, 2))}}
    answer = answer_by_scores(data, scores, "a target sentence")
    assert answer.system == system and said in answer.sentence and "Keep the old vocabulary" in str(answer)


def contender(difference: float, low: float, high: float, p: float, saved: float, other: float = 0.0) -> Contender:
    task = Comparison(difference, Interval(low, high), p, 3, 100)
    return Contender("extended", task, Comparison(other, Interval(other, other), 0.001, 3, 100), saved)


@pytest.mark.parametrize(
    ("case", "objection"),
    [
        (contender(-0.02, -0.03, -0.01, 0.01, 0.0), None),  # better
        (contender(0.0, -0.005, 0.005, 0.9, 0.2), None),  # not worse, and shorter
        (contender(0.0, -0.005, 0.005, 0.9, 0.02), "extended saves fewer than 5.0 % of the tokens"),
        (contender(0.0, -0.02, 0.02, 0.9, 0.2), "it is not certain that extended is at most 0.01 bits"),
        (contender(0.05, 0.04, 0.06, 0.01, 0.3), "extended is worse"),
        (contender(-0.02, -0.03, -0.01, 0.01, 0.2, other=0.05), "the model becomes worse on the other text"),
    ],
)
def test_a_recommendation_of_a_language_model_needs_evidence(case: Contender, objection: str | None) -> None:
    assert case.is_recommended == (objection is None)
    assert objection is None or objection in case.objection


def of_three(
    data: ReportData,
    extended: Comparison,
    replaced: Comparison,
    other: float = 0.0,
    untied: Comparison | None = None,
) -> Answer:
    """The answer about a language model with an extended vocabulary, and with one that replaces the old one.

    untied: Of a further system with the old vocabulary, the best on dev.
    """
    named = {"old": data.systems[0], "extended": data.results("mean")[0], "replaced": data.results("AVG")[0]}
    named |= {"untied": data.systems[0]} if untied else {}
    # Of 4,000 embeddings the one keeps all and adds 100, the other keeps 1,000 and adds 500.
    transfers = {
        "old": None,
        "untied": None,
        "extended": TransferSummary("mean", ("decoder",), 4000, 100),
        "replaced": TransferSummary("mean", ("decoder",), 1000, 500),
    }
    bits = {"old": summary(None), "extended": summary(extended), "replaced": summary(replaced)}
    bits |= {"untied": summary(untied)} if untied else {}
    gap = {"old": 0.0, "extended": 0.4, "replaced": 0.3, "untied": -0.1}
    systems = tuple(
        replace(
            each,
            name=name,
            transfer=transfers[name],
            dev=SelectedScore("bits per character", 1 + gap[name], lower_is_better=True),
            curve=tuple(
                replace(point, step=step, dev_bits_per_character=1 + gap[name] / (1 + step / 50))
                for step, point in zip((0, 100, 200, 300), each.curve, strict=False)
            ),
        )
        for name, each in named.items()
    )
    data = replace(data, systems=systems, baseline="old", characters_per_step=1000)
    worse = {name: comparison(other, 0.001) for name in ("extended", "replaced")} if other else {}
    return answer_by_bits(data, bits, worse)


BETTER, WORSE = Comparison(-0.1, Interval(-0.2, -0.05), 0.001, 3, 9), Comparison(0.2, Interval(0.1, 0.3), 0.001, 3, 9)


def test_of_language_models_the_smallest_change_that_is_better_is_advised(report_data: ReportData) -> None:
    answer = of_three(report_data, BETTER, BETTER)
    assert answer.system == "extended"
    assert answer.sentence == (
        "Take extended, which is better than old: −0.100 [−0.200, −0.050] bits per character; a test line takes "
        "34.3 % fewer tokens (18.0 in place of 27.4)."
    )
    assert of_three(report_data, WORSE, BETTER).system == "replaced"


def test_where_none_is_better_the_best_on_dev_is_explained(report_data: ReportData) -> None:
    answer = of_three(report_data, WORSE, WORSE)
    assert answer.system == "old" and answer.candidate == "replaced"
    assert answer.sentence.startswith("Keep the old vocabulary, as replaced is worse: +0.200 [0.100, 0.300] bits per")
    (remark,) = answer.remarks
    assert remark.startswith("On dev replaced was behind by 0.300 at first and by 0.043 after 300,000 characters: if")
    assert (
        "with replaced the model becomes worse on the other text" in of_three(report_data, WORSE, BETTER, 0.5).sentence
    )


def test_where_none_is_better_a_system_that_saves_tokens_is_explained(report_data: ReportData) -> None:
    """What the reader asks about; one with the old vocabulary may be the best on dev."""
    uncertain = Comparison(-0.008, Interval(-0.03, 0.02), 0.2, 3, 9)
    answer = of_three(report_data, WORSE, WORSE, untied=uncertain)
    assert answer.system == "old" and answer.candidate == "replaced"
    assert of_three(report_data, WORSE, WORSE, untied=BETTER).system == "untied"


def test_a_better_system_does_not_hide_what_one_with_fewer_tokens_costs(report_data: ReportData) -> None:
    """A gain too small to notice wins by the rule; a reader may prefer a third fewer tokens."""
    level = Comparison(0.002, Interval(-0.006, 0.011), 0.57, 3, 9)
    answer = of_three(report_data, level, WORSE, untied=Comparison(-0.004, Interval(-0.005, -0.003), 0.001, 3, 9))
    assert answer.system == "untied"
    assert answer.remarks[0].startswith("If fewer tokens matter more, take replaced: a test line takes ")
    assert answer.remarks[0].endswith(
        " fewer tokens (18.0 in place of 27.4), at +0.200 [0.100, 0.300] bits per character."
    )
    answer = of_three(report_data, level, level, untied=BETTER)
    assert answer.remarks[0].endswith("+0.002 [−0.006, 0.011] bits per character, a difference that is not certain.")
    assert not any("fewer tokens" in remark for remark in of_three(report_data, WORSE, BETTER, 0.5, BETTER).remarks)
