"""Words of text, and which of them a learnt vocabulary cuts to pieces."""

from __future__ import annotations

import pytest

from subgraft.evaluation.reporting.examples import over_segmented_words, words_of
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

EVERYDAY = [
    "der mann liest ein buch im garten",
    "die frau sieht das haus und den hund",
    "ein kind spielt mit dem ball im zimmer",
    "der hund schläft unter dem tisch",
    "wir essen heute brot und käse in der küche",
]
LAW = [f"die kündigungsfrist und der schadenersatz nach gesetz {'ab' * (k % 3)}" for k in range(30)]


@pytest.fixture(scope="module")
def upstream() -> Tokenizer:
    return learn(EVERYDAY * 30, kind="bpe", size=140)


@pytest.fixture(scope="module")
def downstream() -> Tokenizer:
    return learn(LAW * 30, kind="bpe", size=110)


def test_words_lose_their_punctuation_and_numbers_are_not_words() -> None:
    text = "« L'appel », dit-il, coûte 30 euros (net) ; n°5 … aujourd’hui."
    assert list(words_of(text)) == ["L", "appel", "dit-il", "coûte", "euros", "net", "aujourd", "hui"]


def test_combining_marks_stay_in_their_words() -> None:
    assert list(words_of("हिन्दी में लिखा है।")) == ["हिन्दी", "में", "लिखा", "है"]


def test_words_the_upstream_vocabulary_cuts_are_found_with_their_pieces(
    upstream: Tokenizer, downstream: Tokenizer
) -> None:
    references = ["der mann kennt die kündigungsfrist .", "das haus und der schadenersatz"]
    words = over_segmented_words(references, upstream, downstream, "de")
    assert {"kündigungsfrist", "schadenersatz"} <= set(words)
    assert not {"mann", "haus", "der"} & set(words)
    for word, pieces in words.items():
        assert len(pieces) >= 3
        assert "".join(pieces).replace("␣", "") == word
        assert pieces[0].startswith("␣")


def test_without_spaces_downstream_subwords_stand_in_for_words() -> None:
    upstream = learn(["他在学校看书", "我们今天去学校"] * 20, kind="bpe", size=30 + 4, character_coverage=1.0)
    downstream = learn(["图书馆今天看书", "去图书馆", "图书馆在学校"] * 20, kind="bpe", size=24, character_coverage=1.0)
    words = over_segmented_words(["我们去图书馆看书"], upstream, downstream, "zh", at_least=2)
    assert "图书馆" in words
