"""Words, phrases and entities of lines, and the tokens at which they begin."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from subgraft.data.text.units import Collocations, entities, unit_bits, unit_sizes, words
from subgraft.subwords.vocabulary.learn import learn

LINE = "Anna met Doctor Jones-Smith in New York. She didn't say 3 words, nor did IBM."


def _texts(line: str, spans: list[tuple[int, int]]) -> list[str]:
    return [line[start:end] for start, end in spans]


def test_words_have_no_punctuation_and_characters_of_chinese_are_words() -> None:
    assert _texts(LINE, words(LINE))[:6] == ["Anna", "met", "Doctor", "Jones-Smith", "in", "New"]
    assert "didn't" in _texts(LINE, words(LINE)) and "words" in _texts(LINE, words(LINE))
    assert _texts("北京 is a city", words("北京 is a city")) == ["北", "京", "is", "a", "city"]
    assert words("…!") == []


@pytest.mark.parametrize(
    "line",
    [
        "हिन्दी में नमस्ते दुनिया",
        "தமிழ் மொழி நல்லது",
        "বাংলা ভাষা",
        "తెలుగు భాష",
        "كِتَابٌ جَدِيدٌ",
        "שָׁלוֹם עוֹלָם",
        "می\u200cخواهم بروم",
        unicodedata.normalize("NFD", "Été déjà là"),
        unicodedata.normalize("NFD", "tiếng Việt"),
    ],
)
def test_a_word_contains_its_combining_marks_and_joiners(line: str) -> None:
    assert _texts(f"«{line}»!", words(f"«{line}»!")) == line.split()
    ends = list(range(1, len(line) + 1))
    sizes = unit_sizes(unit_bits(ends, line, (), ()), "word")
    assert len(sizes) == 2 * len(line.split()) - 1, "with one character a token, spaces are units of their own"


def test_a_character_of_an_unspaced_script_is_a_word_with_its_marks() -> None:
    assert _texts("ก่อนนี้ ok 文档。", words("ก่อนนี้ ok 文档。")) == ["ก่", "อ", "น", "นี้", "ok", "文", "档"]


def test_entities_are_runs_of_capitalised_words_within_sentences() -> None:
    assert _texts(LINE, entities(LINE)) == ["Doctor Jones-Smith", "New York", "IBM"]
    assert _texts("Doctor Jones left. He and I went.", entities("Doctor Jones left. He and I went.")) == [
        "Doctor Jones"
    ]
    assert entities("no capitals here") == []
    assert _texts('He said: "Paris is far."', entities('He said: "Paris is far."')) == []


def test_collocations_occur_together_more_often_than_by_chance() -> None:
    chooser = random.Random(3)
    filler = [f"w{number}" for number in range(2000)]
    lines = [" ".join(chooser.choices(filler, k=6)) for _ in range(400)]
    lines += [f"{chooser.choice(filler)} fire brigade {chooser.choice(filler)}" for _ in range(40)]
    lines += [f"ill at ease, {chooser.choice(filler)}" for _ in range(20)]
    collocations = Collocations.of(lines)
    assert (
        ("fire", "brigade") in collocations.pairs
        and ("ill", "at") in collocations.pairs
        and ("at", "ease") in collocations.pairs
    )
    assert not any(pair[0] in filler or pair[1] in filler for pair in collocations.pairs)
    line = "The Fire brigade was ill at ease, fire. Brigade"
    assert _texts(line, collocations.phrases(line)) == ["Fire brigade", "ill at ease"]
    # Mikolov et al. 2013, equation 6, with gensim's scale: (c(ab) - 5) V / (c(a) c(b)) against 10.
    assert Collocations.of(["a b"] * 5).pairs == frozenset(), "a pair is discounted by five occurrences"
    rare = [*(["a b"] * 30), *(f"x{n} y{n}" for n in range(200))]
    assert (30 - 5) * 402 / (30 * 30) > 10 and Collocations.of(rare).pairs == {("a", "b")}
    common = [*rare, *(["a", "b"] * 40)]
    assert (30 - 5) * 402 / (70 * 70) < 10 and Collocations.of(common).pairs == frozenset()


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "byte-level-bpe"])
def test_tokens_begin_the_units_of_their_line(kind: str) -> None:
    texts = [LINE, "a line of phrases at ease here", "Anna and the fire brigade"] * 30
    tokenizer = learn(texts, kind=kind, size={"byte-level-bpe": 300, "unigram": 45, "wordpiece": 80}[kind])  # type: ignore[arg-type]
    phrases = [(LINE.index("say 3"), LINE.index(" words")), (LINE.index("3 words"), LINE.index(", nor"))]
    ((ids, ends),) = tokenizer.encode_with_ends([LINE])
    bits = unit_bits(ends, LINE, phrases, entities(LINE))
    assert len(bits) == len(ids)

    def units(name: str) -> list[str]:
        sizes = unit_sizes(bits, name)
        cuts = np.cumsum(sizes)[:-1].tolist()
        return [tokenizer.decode(part.tolist()).replace(" ", "") for part in np.split(np.array(ids), cuts)]

    assert unit_sizes(bits, "piece").tolist() == [1] * len(ids)
    by_word = "Anna met Doctor Jones-Smith in New York . She didn't say 3 words , nor did IBM ."
    assert units("word") == by_word.split()
    assert "say3" in units("phrase") and "words" in units("phrase"), "of two phrases that overlap, the first counts"
    assert "New" in units("phrase"), "what is in no phrase is a word"
    assert {"DoctorJones-Smith", "NewYork", "IBM", "Anna", "say"} <= set(units("entity"))
    beginning = unit_sizes(bits[1:], "entity")
    assert beginning.sum() == len(ids) - 1, "a sentence may lack its beginning"
