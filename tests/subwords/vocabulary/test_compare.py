from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path

import pytest

from subgraft.base.terminal import Terminal
from subgraft.data.text import reading
from subgraft.subwords.vocabulary.compare import Oversegmented, compare, render
from subgraft.subwords.vocabulary.learn import learn
from vocabularies import byte_level, unigram, wordpiece

UPSTREAM = unigram(["▁", "▁the", "s", "dan", "k", "bar", "▁nach", "t", "er"])
DOWNSTREAM = unigram(["▁dankbar", "▁the", "▁nacht", "er", "▁er", "▁"], [-1.0] * 6)
TEXT = ["the dankbar nacht, dankbar!", "(dankbar)", "nacht the the xxx -"]


def test_seen_subwords_are_equal_entries() -> None:
    gap = compare(UPSTREAM, DOWNSTREAM)
    assert (gap.seen, gap.unseen) == (2, 3)  # seen: ▁the, er; a bare ▁ is not a subword
    assert gap.unseen_share == pytest.approx(0.6)
    assert gap.text is None


def test_seen_subwords_across_marks() -> None:
    assert compare(wordpiece(["er", "the"]), DOWNSTREAM).seen == 2  # ▁the and ▁er: there er begins a word
    assert compare(wordpiece(["##er", "##the"]), DOWNSTREAM).seen == 1
    assert compare(byte_level(["the er the er dankbar nacht"] * 9, 280), DOWNSTREAM).seen >= 2


def test_a_text_under_both() -> None:
    text = compare(UPSTREAM, DOWNSTREAM, TEXT).text
    assert text is not None
    assert text.upstream.sentences == text.downstream.sentences == 3
    assert text.oversegmented == (
        Oversegmented("dankbar", 3, ("␣", "dan", "k", "bar"), ("␣dankbar",)),
        Oversegmented("nacht", 2, ("␣nach", "t"), ("␣nacht",)),
    )
    tokens = [sum(len(tokenizer.encode(line)) for line in TEXT) / 3 for tokenizer in (UPSTREAM, DOWNSTREAM)]
    assert [text.upstream.tokens_per_sentence, text.downstream.tokens_per_sentence] == pytest.approx(tokens)
    unknown = [sum(tokenizer.encode(line).count(3) for line in TEXT) for tokenizer in (UPSTREAM, DOWNSTREAM)]
    assert [text.upstream.unknown, text.downstream.unknown] == unknown
    assert unknown[0] > 0
    assert {"x", "!", "(", ")", ",", "-"} <= set(text.upstream_unknown_characters)
    assert not {"s", "k", "t"} & set(text.upstream_unknown_characters)


def test_words_are_ranked_by_what_they_cost_and_cut() -> None:
    text = compare(UPSTREAM, DOWNSTREAM, ["nacht"] * 4 + ["dankbar"], max_words=1).text
    assert text is not None and [result.word for result in text.oversegmented] == ["nacht"]


def test_an_empty_text() -> None:
    text = compare(UPSTREAM, DOWNSTREAM, []).text
    assert text is not None and text.upstream.sentences == 0 and text.oversegmented == ()


def test_json_and_rendering() -> None:
    gap = compare(UPSTREAM, DOWNSTREAM, TEXT)
    values = json.loads(json.dumps(gap.to_json()))
    assert values["unseen_share"] == pytest.approx(0.6)
    assert values["text"]["oversegmented"][0]["upstream"] == ["␣", "dan", "k", "bar"]
    console = Terminal(record=True, width=100, file=io.StringIO())
    console.print(render(gap))
    shown = console.export_text()
    for expected in (
        "3 of 5",
        "60.0%",
        "dankbar",
        "␣ dan k bar",
        "tokens per sentence",
        "sentences with one",
        "unchanged by",
    ):
        assert expected in shown


def test_a_table_of_no_words_is_left_out() -> None:
    console = Terminal(record=True, width=100, file=io.StringIO())
    console.print(render(compare(UPSTREAM, UPSTREAM, TEXT)))
    shown = console.export_text()
    assert "over-segmented" not in shown and "segments no word into more tokens" in shown


@pytest.mark.data
def test_a_domain_vocabulary_shortens_its_text(mirror: Path) -> None:
    everyday = list(islice(reading.lines(mirror / "en-fr/tatoeba/train.fr.gz"), 20_000))
    documentation = list(islice(reading.lines(mirror / "en-fr/itdocs/train.fr.gz"), 5_000))
    upstream, downstream = (
        learn(lines, kind="bpe", size=4000, character_coverage=0.9999) for lines in (everyday, documentation)
    )
    gap = compare(upstream, downstream, documentation, max_words=10)
    assert gap.text is not None and gap.unseen_share > 0.5
    assert gap.text.upstream.tokens_per_sentence > 1.2 * gap.text.downstream.tokens_per_sentence
    assert gap.text.upstream.unknown > 0 and "(" in gap.text.upstream_unknown_characters
    assert len(gap.text.oversegmented) == 10
    assert all(len(result.upstream) > len(result.downstream) for result in gap.text.oversegmented)
