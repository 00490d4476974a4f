"""A window holds its span, is no longer than asked, and ends where sentences or words do."""

from __future__ import annotations

import random

import pytest

from subgraft.data.tasks.question_generation import window

TEXT = 'One is here. Two is "there." Three was at St. 5 of e.g. a town! Four went? Five stayed.'


def cut(text: str, span: str, limit: int) -> str:
    start = text.index(span)
    first, last = window(text, start, start + len(span), limit)
    assert first <= start and start + len(span) <= last
    return text[first:last]


@pytest.mark.parametrize(
    ("span", "limit", "expected"),
    [
        ("Two", len(TEXT), TEXT),
        ("Two", 40, 'One is here. Two is "there." '),
        ("Two", 16, 'Two is "there." '),
        ("Four", 24, "Four went? Five stayed."),
        ("Five", 24, "Four went? Five stayed."),
        # Sentences one and two lie on either side: two characters more, and the one behind fits.
        ('here. Two is "', 29, 'One is here. Two is "there." '),
    ],
)
def test_whole_sentences_are_kept_around_the_span(span: str, limit: int, expected: str) -> None:
    assert cut(TEXT, span, limit) == expected


def test_a_sentence_that_is_too_long_is_cut_at_words() -> None:
    text = " ".join(f"word{number:02}" for number in range(30)) + "."
    assert cut(text, "word10", 36) == "word08 word09 word10 word11 word12 "
    assert cut(text, "word00", 15) == "word00 word01 "


def test_where_sentences_fill_little_words_fill_more() -> None:
    text = "Short one. " + "long " * 20 + "end."
    assert cut(text, "Short", 60) == "Short one. " + "long " * 9


def test_text_without_spaces_is_cut_at_its_sentences_or_characters() -> None:
    text = "他来了。她说：「好。」我走了很远很远的路。"
    assert cut(text, "好", 7) == "她说：「好。」"
    assert cut(text, "很远", 4) == "了很远很"


def test_a_span_longer_than_the_limit_is_never_cut() -> None:
    assert cut(TEXT, "here. Two is", 5) == "here. Two is"


def test_windows_of_random_texts_hold_what_they_must() -> None:
    chooser = random.Random(1)
    for _ in range(300):
        text = "".join(chooser.choices("ab A. !\n。", k=chooser.randint(1, 80)))
        start = chooser.randrange(len(text))
        end, limit = chooser.randint(start + 1, len(text)), chooser.randint(1, 90)
        first, last = window(text, start, end, limit)
        assert 0 <= first <= start < end <= last <= len(text)
        assert last - first <= max(limit, end - start)
        assert 2 * (last - first) >= min(limit, len(text))
