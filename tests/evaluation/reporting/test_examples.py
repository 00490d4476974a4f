"""Which sentences are shown side by side, and that gains and losses are both counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting.examples import find_examples
from subgraft.evaluation.reporting.records import Cost, ReportData, SelectedScore, SystemResult

REFERENCES = ("der schadenersatz ist hoch", "die kündigungsfrist läuft", "das haus ist alt", "der mietvertrag endet")
PIECES = {
    "schadenersatz": ("▁scha", "den", "ersatz"),
    "kündigungsfrist": ("▁kün", "di", "gungs", "frist"),
    "mietvertrag": ("▁miet", "ver", "trag"),
}
OUTPUTS = {
    "baseline": ("der schadensatz ist hoch", "die kündigung läuft", "das haus ist alt", "der mietvertrag endet"),
    "mean": ("der schadenersatz ist hoch", "die kündigungsfrist läuft", "das haus", "der vertrag endet"),
    "patt": ("der schadenersatz, hoch", "die frist läuft", "das haus ist alt", "der mietvertrag endet"),
}


@pytest.fixture
def small(report_data: ReportData) -> ReportData:
    systems = tuple(
        SystemResult(
            name,
            1,
            outputs,
            {"BLEU": Score("BLEU", 0, "")},
            {},
            (),
            0,
            SelectedScore("BLEU", 0),
            5,
            3,
            1,
            1,
            Cost(0, 0, 0),
        )
        for name, outputs in OUTPUTS.items()
    )
    sources = tuple(f"source {index}" for index in range(4))
    return replace(
        report_data, sources=sources, references=REFERENCES, over_segmented=PIECES, baseline="baseline", systems=systems
    )


def test_gains_and_losses_are_counted_for_every_system(small: ReportData) -> None:
    recalls = {recall.name: recall for recall in find_examples(small).recalls}
    counts = {name: (r.recalled, r.total, r.gained, r.lost) for name, r in recalls.items()}
    assert counts == {"baseline": (1, 3, None, None), "mean": (2, 3, 2, 1), "patt": (2, 3, 1, 0)}


def test_the_sentence_most_systems_get_right_comes_first(small: ReportData) -> None:
    examples = find_examples(small)
    assert [example.word for example in examples.gained] == ["schadenersatz", "kündigungsfrist"]
    assert [example.word for example in examples.lost] == ["mietvertrag"]
    first = examples.gained[0]
    assert (first.source, first.reference) == ("source 0", REFERENCES[0])
    assert [(output.name, output.has_word) for output in first.outputs] == [
        ("baseline", False),
        ("mean", True),
        ("patt", True),
    ]


def test_no_word_and_no_sentence_is_shown_twice(report_data: ReportData) -> None:
    examples = find_examples(report_data, gained=10)
    words = [example.word for example in examples.gained]
    assert len(words) == len(set(words)) == 4
    assert all(not example.outputs[0].has_word for example in examples.gained)
    assert all(example.outputs[0].has_word for example in examples.lost)


def test_a_part_of_a_longer_word_does_not_count(small: ReportData) -> None:
    systems = tuple(replace(system, hypotheses=("schadenersatzes", "", "", "")) for system in small.systems)
    assert all(recall.recalled == 0 for recall in find_examples(replace(small, systems=systems)).recalls)


def test_chinese_words_are_found_inside_running_text(small: ReportData) -> None:
    outputs = {"baseline": "我们去书馆", "mean": "我们去图书馆看书", "patt": "他去图书馆"}
    systems = tuple(replace(system, hypotheses=(outputs[system.name],)) for system in small.systems)
    chinese = replace(
        small,
        languages=("en", "zh"),
        sources=("We read in the library.",),
        references=("我们去图书馆看书",),
        over_segmented={"图书馆": ("图", "书", "馆")},
        systems=systems,
    )
    examples = find_examples(chinese)
    assert [example.word for example in examples.gained] == ["图书馆"]
    assert [recall.recalled for recall in examples.recalls] == [0, 1, 1]


def test_without_a_baseline_there_is_nothing_to_compare(small: ReportData) -> None:
    examples = find_examples(replace(small, baseline=None))
    assert examples.gained == examples.lost == ()
    assert [recall.recalled for recall in examples.recalls] == [1, 2, 2]


def test_long_sources_are_shown_where_most_are_long(small: ReportData) -> None:
    """Passages are longer than any sentence that would be picked from a translation."""
    lengths = (700, 300, 200, 400)
    passages = replace(small, sources=tuple("x" * length for length in lengths))
    assert [example.word for example in find_examples(passages).gained] == ["kündigungsfrist"]
    one = replace(small, sources=("x" * 700, *small.sources[1:]))
    assert "schadenersatz" not in [example.word for example in find_examples(one).gained]
