"""Dev and test held out of a text, in whole documents or blocks."""

from __future__ import annotations

from itertools import pairwise

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.experiments.fit.split import FEWEST, Documents, Pair, drop_shared_pairs, split


def text(*sizes: int) -> Documents:
    """Documents of so many pairs, each pair with its document and place in it."""
    return Documents(
        tuple(tuple((f"{number} {place}", f"{number}-{place}") for place in range(s)) for number, s in enumerate(sizes))
    )


def documents_of(pairs: tuple[Pair, ...]) -> set[str]:
    return {source.split()[0] for source, _ in pairs}


@pytest.mark.parametrize("pairs", [300, 307, 1_000, 4_321, 20_000])
def test_a_text_without_documents_is_held_out_in_blocks_from_all_over_it(pairs: int) -> None:
    result = split(text(pairs), Cleaning())
    assert result.unit == "block" and len(result.train) + len(result.dev) + len(result.test) == pairs
    assert len(result.test) == pytest.approx(min(500, max(50, pairs / 10)), abs=result.block)
    assert len(result.dev) == pytest.approx(min(200, max(50, pairs / 10)), abs=result.block)
    places = [int(source.split()[1]) for source, _ in result.test]
    assert min(places) < pairs / 2 < max(places), "from both halves of the text"
    apart = sum(after != before + 1 for before, after in pairwise(places))
    assert apart < len(places) / 20, "neighbours stay together"


def test_whole_documents_are_held_out_where_there_are_enough() -> None:
    result = split(text(*([30, 7, 12, 41] * 15)), Cleaning())
    assert result.unit == "document" and "whole documents" in result.summary
    parts = [documents_of(part) for part in (result.train, result.dev, result.test)]
    assert sum(map(len, parts)) == 60 and not parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2]


def test_few_or_unequal_documents_are_not_what_is_held_out() -> None:
    assert split(text(500, 500), Cleaning()).unit == "block"
    assert split(text(1000, *[1] * 30), Cleaning()).unit == "block", "thirty pairs do not make a test set"


def test_what_is_held_out_is_not_trained_on() -> None:
    pairs = text(400).pairs
    doubled = (*pairs, *pairs)
    result = split(Documents((doubled,)), Cleaning())
    assert not {*result.train} & {*result.dev, *result.test}
    assert result.dropped["held_out"] and result.dropped["duplicate"] and "in dev or test" in result.summary


def test_a_text_of_several_languages_is_held_out_of_all_directions_though_files_lack_different_lines() -> None:
    directions = []
    for number, language in enumerate(("de", "fr", "es", "it")):
        lacking = range(10 * number, 15 * number)
        rows = [at for at in range(1500) if at not in lacking]
        directions.append(Documents((tuple((f"{language} {at}", f"line {at}") for at in rows),)))
    splits = drop_shared_pairs([split(each, Cleaning()) for each in directions], Cleaning())
    held_out = {english for each in splits for _, english in (*each.dev, *each.test)}
    assert held_out.isdisjoint(english for each in splits for _, english in each.train)


def test_the_same_text_is_split_the_same_way() -> None:
    assert split(text(2_000), Cleaning()) == split(text(2_000), Cleaning())


def test_too_few_pairs_are_refused_with_the_number_needed() -> None:
    with pytest.raises(UserError, match=f"299 pairs: a fit needs {FEWEST} or more"):
        split(text(299), Cleaning())
    same = Documents((((("a", "b")),) * 1_000,))
    with pytest.raises(UserError, match="0 training pairs after cleaning: a fit needs 200"):
        split(same, Cleaning())
