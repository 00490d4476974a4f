"""Dev and test text is found in training text however it is typed, on either side, and near copies are counted."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable

import pytest

from subgraft.config.corpora import Cleaning
from subgraft.data.text.cleaning import clean
from subgraft.data.text.fields import Sides
from subgraft.data.text.held_out import NGRAM, HeldOut, comparison_key, fold

TEST: list[Sides] = [
    ("It's the “old” café’s key.", "Das ist der „alte“ Schlüssel des Cafés."),
    ("Where is the straße 3 ½ km from here?", "Où est-ce que c’est ?"),
    ("我们明天去北京。", "तुम कहाँ जा रहे हो।"),
]
TYPED: dict[str, Callable[[str], str]] = {
    "double spaces": lambda line: line.replace(" ", "  "),
    "non-breaking spaces": lambda line: line.replace(" ", "\u00a0"),
    "ideographic spaces": lambda line: line.replace(" ", "\u3000"),
    "decomposed": lambda line: unicodedata.normalize("NFD", line),
    "compatibility forms": lambda line: line.replace("3", "３").replace("?", "？").replace("I", "Ｉ"),
    "upper case": str.upper,
    "lower case": str.lower,
    "no final punctuation": lambda line: line.rstrip(".?。।").rstrip(),
    "other final punctuation": lambda line: line.rstrip(".?。।").rstrip() + " …!»",
    "straight apostrophes": lambda line: line.replace("’", "'").replace("“", '"').replace("”", '"'),
    "curly apostrophes": lambda line: line.replace("'", "’").replace("„", "«").replace("“", "»"),
    "invisible characters": lambda line: "\ufeff" + line[:3] + "\u00ad\u200b" + line[3:],
}


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
def test_a_line_is_found_however_it_is_typed(typed: Callable[[str], str]) -> None:
    held_out, lines = HeldOut(TEST), [line for sides in TEST for line in sides]
    for line in lines:
        other = fold(typed(line))
        assert held_out.has((other,)), "in text of either side"
        assert held_out.has((other, "something else")) and held_out.has(("something else", other))
        assert not held_out.has((fold(typed(line) + " and more"), "something else"))


def test_lines_that_are_not_equal_stay_apart() -> None:
    lines = [
        "हिन्दी",
        "हिन्द",
        "a.b",
        "ab",
        "a b",
        "-1",
        "1",
        "...",
        "?",
        "C'est",
        "Cest",
        "naïve",
        "naive",
        "\u200b",
        "<3",
        "<",
    ]
    assert len({comparison_key(fold(line)) for line in lines}) == len(lines)
    assert not HeldOut([("", "\u200b")]).has(("", "\u200b"))


def test_classes_and_answers_that_come_again_and_again_do_not_tell_a_segment() -> None:
    held_out = HeldOut([(f"question number {at}", ("yes", "no")[at % 2]) for at in range(10)])
    assert held_out.has(("question number 3", "yes")) and held_out.has(("question number 3", "perhaps"))
    assert not held_out.has(("another question", "yes"))
    both = HeldOut([(str(at % 3), str(at % 2)) for at in range(60)] + [("7", "8")] * 3)
    assert both.has(("7", "8")) and both.has(("2", "1"))
    assert HeldOut([("a", "b")] * 5).has(("a", "c")), "repeated pairs are one"


def test_a_side_that_several_texts_share_identifies_segments_in_each() -> None:
    english = [f"sentence number {at}" for at in range(10)]
    translations = [[(line, f"{language} {line}") for line in english] for language in ("de", "fr", "es")]
    answers = [(f"question {at % 4}", ("yes", "no", "perhaps")[at % 3]) for at in range(60)]
    held_out = HeldOut(*translations, answers)
    assert held_out.has(("sentence number 3", "it sentence number 3"))
    assert not held_out.has(("question 1", "maybe")), "one text's short answers identify nothing"
    assert held_out.has(("question 1", "no"))


def test_near_copies_are_counted_and_stay() -> None:
    words = [f"word{at}" for at in range(40)]
    long, short = " ".join(words[:20]), "too short to be judged"
    test: list[Sides] = [
        (long, "lang"),
        (" ".join(words[20:]), "kurz"),
        ("明天我们坐火车去北京看朋友", "x"),
        (short, "y"),
    ]
    training: list[Sides] = [
        ("And so: " + ", ".join(words[:14]).upper() + " - then more", "a"),  # 7 of its 13 runs
        (" ".join(words[20:33]), "b"),  # 6 of 13
        ("他说明天我们坐火车去北京看朋友们", "c"),
        (f"it is {short} or not", "d"),
        (long, "lang"),
    ]
    counts: Counter[str] = Counter()
    selected = list(clean(training, Cleaning(max_ratio=None), HeldOut(test), counts, (0, 1)))
    assert selected == training[:4]
    assert counts == {"read": 5, "kept": 4, "held_out": 1, "near_copies": 2}
    unjudged: Counter[str] = Counter()
    list(clean(training, Cleaning(max_ratio=None, drop_held_out=False), HeldOut(test), unjudged, (0, 1)))
    assert unjudged == {"read": 5, "kept": 5}


def test_runs_do_not_cross_lines_or_unknown_words() -> None:
    words = [f"w{at}" for at in range(NGRAM)]
    whole = " ".join(words)
    for training in ([(" ".join(words[:4]),), (" ".join(words[4:]),)], [(whole.replace("w3", "w3 new"),)]):
        held_out = HeldOut([(whole,)])
        held_out.note(training)
        assert held_out.near_copies == 0
    held_out.note([(f"before {whole} after",)])
    assert held_out.near_copies == 1
