"""The subword gap between two vocabularies: missing subwords and the effect on a text (Liu et al. 2021, Table 1)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.lost_text import LostText, lost_text, sampled
from subgraft.subwords.vocabulary.segmentation import readable
from subgraft.subwords.vocabulary.spelling import Spelling, chunks, spelling, unknown_characters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Oversegmented:
    """A word of the text, its count, and its pieces under each vocabulary."""

    word: str
    count: int
    upstream: tuple[str, ...]
    downstream: tuple[str, ...]


@dataclass(frozen=True)
class TextGap:
    """A text under the two vocabularies.

    Attributes:
        upstream, downstream: Counts of tokens and unknown tokens.
        upstream_unknown_characters, downstream_unknown_characters: The most frequent unknown characters.
        oversegmented: Words with more pieces under the upstream vocabulary, by occurrences times extra pieces.
        lost: Lines that the upstream vocabulary gives back and the downstream one does not, of a sample.
    """

    upstream: Spelling
    downstream: Spelling
    upstream_unknown_characters: tuple[str, ...]
    downstream_unknown_characters: tuple[str, ...]
    oversegmented: tuple[Oversegmented, ...]
    lost: LostText


@dataclass(frozen=True)
class Gap:
    """How many subwords of the downstream vocabulary are in the upstream vocabulary (seen) or not (unseen).

    Subwords are compared as entries, independent of marks; special tokens and bytes are excluded.
    """

    upstream_size: int
    downstream_size: int
    seen: int
    unseen: int
    text: TextGap | None

    @property
    def unseen_share(self) -> float:
        """Share of downstream subwords that are not in the upstream vocabulary."""
        return self.unseen / max(1, self.seen + self.unseen)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, with the share."""
        return asdict(self) | {"unseen_share": self.unseen_share}


@dataclass(frozen=True)
class ReadText:
    """A text that was read once: its words, the spelling of each vocabulary, and a sample of its lines."""

    words: Counter[str]
    spellings: tuple[Spelling, ...]
    sample: tuple[str, ...]


def read_text(tokenizers: Sequence[Tokenizer], lines: Iterable[str]) -> ReadText:
    """Read a text under several vocabularies; it is streamed."""
    words: Counter[str] = Counter()
    spellings = [Spelling()] * len(tokenizers)
    read = sampled(lines)
    for chunk in chunks(read):
        words.update(word for line in chunk for word in line.split())
        spellings = [sum_ + spelling(each, chunk) for sum_, each in zip(spellings, tokenizers, strict=True)]
    return ReadText(words, tuple(spellings), tuple(read.sample))


def compare(upstream: Tokenizer, downstream: Tokenizer, lines: Iterable[str] | None = None, max_words: int = 20) -> Gap:
    """Compare two vocabularies.

    Args:
        upstream: The old vocabulary.
        downstream: The new vocabulary.
        lines: A text on which to compare them; None compares only their subwords.
        max_words: The maximum number of over-segmented words to list.
    """
    text = None if lines is None else read_text((upstream, downstream), lines)
    return gap_between(upstream, downstream, text, 1, max_words)


def gap_between(upstream: Tokenizer, downstream: Tokenizer, text: ReadText | None, index: int, max_words: int) -> Gap:
    """The gap on a text that both have read, the upstream vocabulary as the first and the downstream one at `index`."""
    seen = sum(entry in upstream.ids for entry in downstream.ids)
    text_gap = None
    if text is not None:
        text_gap = TextGap(
            text.spellings[0],
            text.spellings[index],
            unknown_characters(upstream, text.words),
            unknown_characters(downstream, text.words),
            _most(upstream, downstream, text.words, max_words, lambda ours, theirs: ours - theirs),
            lost_text(upstream, downstream, text.sample),
        )
    return Gap(
        upstream_size=len(upstream),
        downstream_size=len(downstream),
        seen=seen,
        unseen=len(downstream.ids) - seen,
        text=text_gap,
    )


def fragmented(
    upstream: Tokenizer, downstream: Tokenizer, counts: Counter[str], max_words: int
) -> tuple[Oversegmented, ...]:
    """The words for which the downstream vocabulary still needs the most further tokens, by their occurrences."""
    return _most(upstream, downstream, counts, max_words, lambda ours, theirs: theirs - 1)


def _most(
    upstream: Tokenizer,
    downstream: Tokenizer,
    counts: Counter[str],
    max_words: int,
    extra: Callable[[int, int], int],
) -> tuple[Oversegmented, ...]:
    """Words by occurrences times their extra tokens, by the numbers of tokens of both vocabularies."""
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words[_strip_punctuation(word)] += count
    del words[""]
    entries = [Entry(word, word_initial=True) for word in words]
    segmented = zip(upstream.segment_batch(entries), downstream.segment_batch(entries), strict=True)
    gains = [
        (count * extra(len(ours), len(theirs)), count, word, ours, theirs)
        for (word, count), (ours, theirs) in zip(words.items(), segmented, strict=True)
        if extra(len(ours), len(theirs)) > 0
    ]
    gains.sort(key=lambda gain: (-gain[0], -gain[1], gain[2]))
    return tuple(
        Oversegmented(
            word, count, tuple(readable(upstream, i) for i in ours), tuple(readable(downstream, i) for i in theirs)
        )
        for _, count, word, ours, theirs in gains[:max_words]
    )


def _strip_punctuation(word: str) -> str:
    """The word without punctuation and symbols at its edges."""
    start, end = 0, len(word)
    while start < end and unicodedata.category(word[start])[0] in "PS":
        start += 1
    while start < end and unicodedata.category(word[end - 1])[0] in "PS":
        end -= 1
    return word[start:end]


FIGURES: dict[str, Callable[[Spelling], str]] = {
    "tokens per sentence": lambda text: f"{text.tokens_per_sentence:.2f}",
    "unknown tokens": lambda text: f"{text.unknown:,} ({text.unknown_share:.2%})",
    "sentences with one": lambda text: f"{text.with_unknown:,} ({text.with_unknown_share:.1%})",
    "tokens of one byte": lambda text: f"{text.byte_tokens:,} ({text.byte_share:.2%})",
    "sentences unchanged by a round trip": lambda text: f"{text.round_trip:,} ({text.round_trip_share:.1%})",
}


def render(gap: Gap) -> RenderableType:
    """The comparison as rich tables for a terminal."""
    from rich.console import Group
    from rich.text import Text

    from subgraft.base.terminal import Table

    subwords = gap.seen + gap.unseen
    share = f"({gap.unseen_share:.1%})"
    heading = f"{gap.unseen:,} of {subwords:,} downstream subwords {share} are unseen, {gap.seen:,} seen."
    if gap.text is None:
        return heading
    figures = Table("", "upstream", "downstream", title="On this text")
    text = gap.text
    figures.add_row("entries", f"{gap.upstream_size:,}", f"{gap.downstream_size:,}")
    for name, figure in FIGURES.items():
        figures.add_row(name, figure(text.upstream), figure(text.downstream))
    unknown = (text.upstream_unknown_characters, text.downstream_unknown_characters)
    figures.add_row("characters it cannot spell", *(" ".join(characters) or "none" for characters in unknown))
    words = Table("word", "count", "upstream", "downstream", title="Most over-segmented words")
    for word in text.oversegmented:
        cells = (word.word, f"{word.count:,}", " ".join(word.upstream), " ".join(word.downstream))
        words.add_row(*cells)
    lost = [Text(f"In a sample {text.lost}.")] if text.lost.lost else []
    none = "The upstream vocabulary segments no word into more tokens than the downstream one."
    return Group(heading, figures, *lost, words if text.oversegmented else none)
