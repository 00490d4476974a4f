"""Each cleaning rule strikes what it should and is counted under its own name."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgraft.config.corpora import Cleaning
from subgraft.data.text import cleaning as cleaning_module
from subgraft.data.text.cleaning import clean, digests, strip
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.fields import Sides
from subgraft.data.text.held_out import HeldOut

LENIENT = {"deduplicate": False, "drop_held_out": False}


def run(
    segments: list[Sides], held_out: list[Sides] | None = None, **rules: object
) -> tuple[list[Sides], dict[str, int]]:
    counts: Counter[str] = Counter()
    cleaning, texts = Cleaning.model_validate({**LENIENT, **rules}), range(len(segments[0]))
    selected = list(clean(segments, cleaning, HeldOut(held_out or []), counts, texts))
    return selected, dict(counts)


@pytest.mark.parametrize(
    ("segment", "rules", "rule"),
    [
        (("a", "  "), {}, "too_short"),
        (("abc", "ab"), {"min_characters": 3}, "too_short"),
        (("abc", "abcd"), {"max_characters": 3}, "too_long"),
        (("a", "abc"), {"max_ratio": 2}, "ratio"),
        ((" same", "same "), {"drop_identical": True}, "identical"),
        (("x", "y"), {"drop_held_out": True}, "held_out"),
    ],
)
def test_each_rule(segment: Sides, rules: dict[str, object], rule: str) -> None:
    fine = ("abc", "abd")
    selected, counts = run([fine, segment], [("x", "y")], **rules)
    assert selected == [fine]
    assert counts == {"read": 2, "kept": 1, rule: 1}


def test_bounds_are_inclusive() -> None:
    segments: list[Sides] = [("ab", "abcd"), ("same", "same"), ("x", "y")]
    selected, counts = run(segments, [("x", "y")], max_characters=4, max_ratio=2)
    assert selected == segments
    assert counts == {"read": 3, "kept": 3}


def test_duplicates_are_judged_by_both_sides_after_stripping() -> None:
    selected, counts = run([("a", "b"), (" a", "b\t"), ("a", "c"), ("ab", ""), ("a", "b")], deduplicate=True)
    assert selected == [("a", "b"), ("a", "c")]
    assert counts == {"read": 5, "kept": 2, "duplicate": 2, "too_short": 1}


def test_sides_are_not_confused_by_where_they_are_cut() -> None:
    one, other = digests([("ab", "c"), ("a", "bc")])
    assert one != other


def test_monolingual_segments_have_no_ratio_to_break() -> None:
    selected, _ = run([("a",), ("bb",), ("a",)], deduplicate=True, drop_identical=True)
    assert selected == [("a",), ("bb",)]


@given(st.text())
def test_stripped_segments_are_one_line_to_every_reader(text: str) -> None:
    counts: Counter[str] = Counter()
    (stripped,) = strip((text,), counts)
    assert len(stripped.splitlines()) == (1 if stripped else 0)
    assert len(stripped) == len(text.strip())
    assert counts["line_breaks_replaced"] == (stripped != text.strip())


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
def test_first_of_equal_segments_stays_however_many_are_judged_at_once(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning_module, "_AT_ONCE", at_once)
    rng = random.Random(3)
    segments: list[Sides] = [(f"{rng.randrange(60)}", f"{rng.randrange(2)}+ ") for _ in range(400)]
    held_out, known = {("7", "x"), ("8", "y")}, {("9", "0+"), ("7", "0+")}
    counts, expected, seen = Counter[str](), list[Sides](), set[Sides]()
    selected = clean(
        segments,
        Cleaning(),
        HeldOut(sorted(held_out)),
        counts,
        (0, 1),
        SegmentDigests.of([digests(known)]),
        tmp_path,
    )
    result, reasons = list(selected), Counter[str](read=400)
    for number, word in segments:
        sides = (number, word.strip())
        rule = "held_out" if number in ("7", "8") else "elsewhere" if sides in known else None
        rule = rule or ("duplicate" if sides in seen else "kept")
        reasons[rule] += 1
        if rule == "kept":
            seen.add(sides)
            expected.append(sides)
    assert result == expected
    assert counts == reasons
    assert reasons["duplicate"] > 200 > reasons["kept"] > 100
