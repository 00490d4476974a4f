"""Spelling in a report: how much of a gain it may explain, and the scores without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from subgraft.config.settings_base import SideName
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.metrics.sentence_statistics import corpus_score
from subgraft.evaluation.reporting.document import Notice
from subgraft.evaluation.reporting.records import ReportData, Role, SpelledText
from subgraft.evaluation.reporting.report import subword_gap
from subgraft.evaluation.reporting.results import results
from subgraft.evaluation.reporting.summary import summarise, summarise_spelled
from subgraft.evaluation.reporting.table import Table, text_markdown
from subgraft.evaluation.reporting.unknown_token_analysis import (
    spelling_in_short,
    spelling_table,
    unknown_token_caption,
)
from subgraft.subwords.vocabulary.lost_text import LostText
from subgraft.subwords.vocabulary.spelling import Spelling


def spelled_text(role: Role, side: SideName, unknown: int, bleu: float) -> SpelledText:
    """Of 200 test sentences and 8,000 tokens."""
    counts = Spelling(200, 8000, unknown, 0, min(200, unknown), 200 - min(200, unknown))
    scores = {name: Score(name, bleu, "by hand") for name in ("BLEU", "chrF")}
    return SpelledText(role, side, "test", counts, scores)


def with_gap(data: ReportData, *spelling: SpelledText, unknown_tokens: tuple[str, ...] = ()) -> ReportData:
    return replace(data, gap=replace(data.gap, spelling=spelling, unknown_tokens=unknown_tokens))


def in_short(data: ReportData) -> list[str]:
    return [text_markdown(item) for item in spelling_in_short(data)]


def with_masks(data: ReportData, lost: dict[str, list[int]]) -> ReportData:
    """The comparison in which a system cannot spell these sentences."""

    def mask(name: str) -> np.ndarray:
        return np.isin(np.arange(len(data.references)), lost.get(name, []), invert=True)

    return replace(data, systems=tuple(replace(system, spelled=mask(system.name)) for system in data.systems))


def test_what_of_a_gain_may_be_spelling_is_said(report_data: ReportData) -> None:
    data = with_gap(
        report_data,
        spelled_text("upstream", "encoder", 80, 92.0),
        spelled_text("upstream", "decoder", 200, 87.9),
        spelled_text("downstream", "decoder", 0, 99.9),
        unknown_tokens=("(", "4"),
    )
    references, sources = in_short(data)
    assert "2.5 % of the tokens of the references, in 100.0 % of the sentences" in references
    assert "which lacks ( 4. A perfect model" in references
    assert "would reach BLEU 87.90, one with the downstream vocabulary 99.90: up to 12.00 points" in references
    assert "1.0 % of the tokens of the sources, in 40.0 %" in sources
    assert "Systems that begin with the upstream model do not see them." in sources
    assert unknown_token_caption(data) == (
        "\nthe upstream vocabulary cannot spell 2.5 % of the reference tokens: see the report"
    )


def test_where_all_is_spelled_that_is_said(report_data: ReportData) -> None:
    spelled = (spelled_text("upstream", "decoder", 0, 99.9), spelled_text("downstream", "decoder", 0, 99.9))
    data = with_gap(report_data, *spelled)
    assert in_short(data) == ["Every vocabulary here spells all of the test set: spelling explains no part of a gain."]
    other = with_masks(data, {"mean": [3, 4]})
    assert in_short(other) == ["Some systems' vocabularies cannot spell 2 of 240 test sentences."]
    assert unknown_token_caption(data) == ""
    assert in_short(report_data) == [] == spelling_table(report_data), "nothing was counted"


def test_the_table_has_every_text(report_data: ReportData) -> None:
    data = with_gap(report_data, replace(spelled_text("upstream", "encoder", 80, 92.0), split="train", scores={}))
    (shown,) = spelling_table(data)
    cells = [text_markdown(cell) for cell in shown.rows[0]]
    assert cells == ["train, sources", "upstream", "80 (1.0 %)", "40.0 %", "0.0 %", "60.0 %", "–", "–"]


def test_scores_on_sentences_that_every_system_can_spell(report_data: ReportData) -> None:
    lost = {"pretrain-finetune": [0, 5, 7], "mean": [7, 11]}
    data = with_masks(report_data, lost)
    mask = data.spelled_by_all
    assert mask is not None and np.flatnonzero(~mask).tolist() == [0, 5, 7, 11]
    summaries = summarise_spelled(data, ("BLEU", "chrF"))
    for summary in summaries:
        for result in data.results(summary.name):
            for metric in ("BLEU", "chrF"):
                expected = corpus_score(metric, result.statistics[metric][mask], "de").value
                assert summary.metrics[metric].by_seed[result.seed] == pytest.approx(expected)
    assert [system.name for system in summaries] == [system.name for system in summarise(data)]
    assert summaries[1].metrics["BLEU"].comparison is not None
    captions = [block.caption for block in results(data)[0].blocks if isinstance(block, Table)]
    assert "Scores on the 236 of 240 test sentences that every system can spell" in captions


def test_no_second_scores_where_all_is_spelled_or_it_is_not_known(report_data: ReportData) -> None:
    for data in (report_data, with_masks(report_data, {})):
        assert summarise_spelled(data, ("BLEU",)) == ()
        assert not any("can spell" in block.caption for block in results(data)[0].blocks if isinstance(block, Table))
    nothing = with_masks(report_data, {"mean": list(range(240))})
    assert summarise_spelled(nothing, ("BLEU",)) == ()
    assert results(nothing)


def test_text_that_the_downstream_vocabulary_loses_is_said(report_data: ReportData) -> None:
    """Though nothing is unknown, spelling is not said to be equal."""
    spelled = (spelled_text("upstream", "decoder", 0, 99.9), spelled_text("downstream", "decoder", 0, 99.9))
    data = with_gap(report_data, *spelled)
    lost = LostText(200, 30, ("line ends",), (("'a\\nb'", "'a b'"),))
    data = replace(data, gap=replace(data.gap, lost={"decoder": lost, "encoder": LostText(200, 0)}))
    (line,) = in_short(data)
    assert "Of the test set's references, the downstream vocabulary changes 30 of 200 lines (15.0%)" in line
    assert "It loses line ends." in line and "neither distinguish this text nor write it" in line
    assert unknown_token_caption(data) == (
        "\nthe downstream vocabulary loses text in 15.0 % of the references: see the report"
    )
    (notice,) = [block for block in subword_gap(data).blocks if isinstance(block, Notice)]
    assert notice.text.replace("\\", "") == line.strip("*").replace("\\", "")
    assert not [block for block in subword_gap(report_data).blocks if isinstance(block, Notice)]
