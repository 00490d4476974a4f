from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.embeddings.generators.resegment import Resegmentation, Resegmenter, Span
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english

TEXT = english(90)


@pytest.fixture(scope="module", params=["unigram", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return learn(english(), kind=request.param, size=80)


def _surfaces(tokenizer: Tokenizer, result: Resegmentation) -> list[Entry]:
    size = len(tokenizer)
    entries = [tokenizer.entries[t] if t < size else result.new[t - size].entry for t in result.tokens]
    return [entry for entry in entries if entry is not None]


def _resegmented(tokenizer: Tokenizer, text: str, seed: int, **rates: float) -> tuple[list[int], Resegmentation]:
    tokens = tokenizer.encode(text)
    settings = ResegmentationSettings(**rates)  # type: ignore[arg-type]
    return tokens, Resegmenter(tokenizer, settings)(tokens, np.random.default_rng(seed))


def _spell(entries: list[Entry]) -> list[str]:
    """Words, from entries."""
    words: list[str] = []
    for entry in entries:
        if entry.word_initial or not words:
            words.append(entry.surface)
        else:
            words[-1] += entry.surface
    return words


@pytest.mark.parametrize("seed", range(20))
def test_words_are_spelled_as_before(tokenizer: Tokenizer, seed: int) -> None:
    """Merging and splitting never cross a word boundary, and never change the text."""
    text = TEXT[seed % 3]
    tokens, result = _resegmented(tokenizer, text, seed, merge_rate=0.5, split_rate=0.5)
    before = [entry for t in tokens if (entry := tokenizer.entries[t]) is not None]
    assert _spell(_surfaces(tokenizer, result)) == _spell(before)


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_the_smallest_at_whose_ends_both_agree(tokenizer: Tokenizer, seed: int) -> None:
    tokens, result = _resegmented(tokenizer, TEXT[seed % 3], seed, merge_rate=0.4, split_rate=0.4)
    size = len(tokenizer)

    def ends(ids: list[int]) -> list[int]:
        lengths = []
        for token in ids:
            entry = tokenizer.entries[token] if token < size else result.new[token - size].entry
            lengths.append(len(entry.surface) if entry is not None else 1)
        positions: list[int] = np.cumsum(lengths).tolist()
        return positions

    original, changed = ends(tokens), ends(result.tokens)
    agreed = sorted(set(original) & set(changed))
    assert [original[span.original[1] - 1] for span in result.spans] == agreed
    assert [changed[span.resegmented[1] - 1] for span in result.spans] == agreed
    assert result.spans[0].original[0] == result.spans[0].resegmented[0] == 0
    for left, right in zip(result.spans, result.spans[1:], strict=False):
        assert left.original[1] == right.original[0]
        assert left.resegmented[1] == right.resegmented[0]


def test_rates_of_zero_change_nothing(tokenizer: Tokenizer) -> None:
    tokens, result = _resegmented(tokenizer, TEXT[0], 0, merge_rate=0.0, split_rate=0.0)
    assert result.tokens == tokens
    assert not result.new


def test_certain_merging_makes_words_whole(tokenizer: Tokenizer) -> None:
    _, result = _resegmented(tokenizer, "gardenership", 0, merge_rate=1.0, split_rate=0.0, max_merge=50)
    assert _surfaces(tokenizer, result) == [Entry("gardenership", True)]


def test_realised_rates_are_the_stated_ones(tokenizer: Tokenizer) -> None:
    """A split is drawn for every token of two characters or more that is not merged."""
    resegmenter = Resegmenter(tokenizer, ResegmentationSettings(merge_rate=0.0, split_rate=0.3))
    generator = np.random.default_rng(5)
    split = eligible = 0
    for text in TEXT * 10:
        tokens = tokenizer.encode(text)
        eligible += sum((e := tokenizer.entries[t]) is not None and len(e.surface) > 1 for t in tokens)
        split += len(resegmenter(tokens, generator).tokens) - len(tokens)
    assert split / eligible == pytest.approx(0.3, abs=0.02)


class _Figure2:
    """A vocabulary with just the subwords of the paper's Figure 2."""

    entries = (
        None,
        Entry("nothing", True),
        Entry("I", True),
        Entry("could", True),
        Entry("have", True),
        Entry("ima", True),
        Entry("gine", False),
        Entry("d", False),
        Entry("ing", False),
    )

    word_entries = entries
    ids: ClassVar = {entry: i for i, entry in enumerate(entries) if entry is not None}

    def __len__(self) -> int:
        return len(self.entries)


def test_the_examples_of_figure_2() -> None:
    """nothing → noth ##ing and ima ##gine → imagine, with the figure's six spans."""
    vocabulary = _Figure2()
    resegment = Resegmenter(vocabulary, ResegmentationSettings(merge_rate=0.3, split_rate=0.3))  # type: ignore[arg-type]
    tokens = [1, 2, 3, 4, 5, 6, 7]
    expected_new = [Entry("noth", True), Entry("imagine", True)]
    for seed in range(20_000):
        result = resegment(tokens, np.random.default_rng(seed))
        if [token.entry for token in result.new] == expected_new and len(result.tokens) == 7:
            break
    else:
        pytest.fail("the figure's re-segmentation was never drawn")
    assert result.tokens == [9, 8, 2, 3, 4, 10, 7]
    assert result.spans == [
        Span((0, 1), (0, 2)),
        Span((1, 2), (2, 3)),
        Span((2, 3), (3, 4)),
        Span((3, 4), (4, 5)),
        Span((4, 6), (5, 6)),
        Span((6, 7), (6, 7)),
    ]
