"""Test pairs in training text: which are found, and which are not."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.data.synthetic_pairs import write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.held_out import SeenPairs, digest
from toys import english, german

TEST = list(zip(english(6, 5), german(6, 5), strict=True))
OTHERS = list(zip(english(30, 6), german(30, 6), strict=True))


def training(place: Path, *pairs: tuple[str, str]) -> Corpus:
    place.mkdir()
    languages = Languages(source="en", target="de")
    return write_pairs({"train": [*OTHERS, *pairs], "dev": TEST, "test": TEST}, languages, {}, place)


def test_neither_other_text_nor_other_splits_count(tmp_path: Path) -> None:
    assert SeenPairs.of(TEST, [training(tmp_path / "others")]) == SeenPairs(6, 0, 0, 0)


def test_pairs_are_found_in_either_direction_and_any_typography(tmp_path: Path) -> None:
    (first, second, *_) = TEST
    seen = training(tmp_path / "seen", first, (f"  {second[1].upper()} ", second[0].rstrip(".") + "!"))
    assert SeenPairs.of(TEST, [seen]) == SeenPairs(6, 2, 2, 2)


def test_a_side_in_another_pair_does_not_count_as_a_pair(tmp_path: Path) -> None:
    crossed = training(tmp_path / "crossed", (TEST[0][0], TEST[1][1]), ("something else", TEST[2][1]))
    assert SeenPairs.of(TEST, [crossed]) == SeenPairs(6, 0, 1, 2)


def test_sides_in_two_corpora_do_not_count_as_a_pair_and_a_pair_twice_counts_once(tmp_path: Path) -> None:
    one = training(tmp_path / "one", (TEST[0][0], "other"), TEST[3])
    two = training(tmp_path / "two", ("another", TEST[0][1]), TEST[3])
    assert SeenPairs.of(TEST, [one, two]) == SeenPairs(6, 1, 2, 2)


def test_the_digest_is_of_the_line_without_case_and_final_punctuation() -> None:
    assert digest("Good  morning!") == digest("good morning") != digest("good mornings")
