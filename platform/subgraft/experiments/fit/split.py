"""Read two parallel files and split them into training, dev and test; read monolingual text that is in none of these.

The units of the split are complete documents, or blocks of neighbouring lines. Neighbouring lines share words, names
and phrases: if single lines were held out, their neighbours in the training text would inflate every model's scores,
most of all those of the model whose vocabulary was learnt there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

from subgraft.base.errors import ArgumentError
from subgraft.config.corpora import Cleaning
from subgraft.data.text import reading
from subgraft.data.text.cleaning import RULES, clean, digests, dropped_in_words, near_copies_in_words, strip
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.held_out import HeldOut

# A tenth of the pairs each, within these bounds. Below 50 sentences an interval of BLEU is wider than any gain.
HELD_OUT_SHARE = 0.1
FEWEST_HELD_OUT = 50
MAX_DEV, MAX_TEST = 200, 500
FEWEST_TRAINING = 200
FEWEST = FEWEST_TRAINING + 2 * FEWEST_HELD_OUT
# With fewer documents, dev and test would be of one or two of them.
FEWEST_DOCUMENTS = 20
MIN_BLOCK_SIZE, BLOCKS_PER_TEST_SET = 25, 8

Pair: TypeAlias = tuple[str, str]
Kind: TypeAlias = Literal["pairs", "lines", "conversations"]


@dataclass(frozen=True)
class Documents:
    """Pairs in the order of their files.

    documents: one, the whole text, if no blank lines separate several.  incomplete: lines with one side empty.
    """

    documents: tuple[tuple[Pair, ...], ...]
    incomplete: int = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for document in self.documents for pair in document)


def read_documents(source: Path, target: Path) -> Documents:
    """Line by line, plain or gzipped. A line that is blank in both files ends a document.

    Raises UserError for files of different lengths, and as `reading.lines` does.
    """
    documents: list[tuple[Pair, ...]] = []
    current: list[Pair] = []
    incomplete = 0
    for pair in _parallel(source, target):
        if all(pair):
            current.append(pair)
        elif any(pair):
            incomplete += 1
        elif current:
            documents.append(tuple(current))
            current = []
    documents += [tuple(current)] if current else []
    return Documents(tuple(documents), incomplete)


def _parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Stripped lines of both. The rest of the longer file is read only to count it."""
    files, counts = (source, target), [0, 0]
    for sides in zip_longest(*(reading.lines(path) for path in files)):
        counts = [count + (side is not None) for count, side in zip(counts, sides, strict=True)]
        if None not in sides:
            first, second = strip(sides, Counter())
            yield first, second
    if counts[0] != counts[1]:
        raise ArgumentError(
            f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}",
            where="pairs",
            hint="Line N of one file must be the translation of line N of the other.",
        )


def blocks(pairs: Sequence[Pair], size: int) -> list[tuple[Pair, ...]]:
    """Runs of `size` neighbours, the last one shorter if needed."""
    return [tuple(pairs[start : start + size]) for start in range(0, len(pairs), size)]


@dataclass(frozen=True)
class Split:
    """A split text.

    Attributes:
        unit: The unit that was not divided.
        dropped: Training pairs by the cleaning rule that dropped them.
        near_copies: Dev and test pairs with near copies in the training pairs.
        kind: What the text is of.
    """

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    unit: Literal["document", "block"]
    block: int
    dropped: Mapping[str, int]
    near_copies: int = 0
    kind: Kind = "pairs"

    @property
    def parts(self) -> Mapping[str, tuple[Pair, ...]]:
        """The pairs by the name of their part."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    @property
    def summary(self) -> str:
        """The split in one sentence."""
        unit = (
            f"whole {'conversations' if self.kind == 'conversations' else 'documents'}"
            if self.unit == "document"
            else f"blocks of {self.block} lines on end, spread evenly over the files"
        )
        rules = ", ".join(f"{count:,} {RULES[rule]}" for rule, count in self.dropped.items())
        near = near_copies_in_words(self.near_copies)
        if near and self.kind != "pairs":
            near = f"dropped from dev and test: {self.near_copies:,} with near copies in the training {self.kind}"
        dropped = f"; dropped from the training {self.kind}: {rules}" if rules else ""
        return f"held out: {unit}{dropped}" + (f"; {near}" if near else "")


def split(text: Documents, cleaning: Cleaning, kind: Kind = "pairs") -> Split:
    """Split the text deterministically.

    kind: what the text is of; lines and conversations of dev and test with near copies in training are dropped.

    Training pairs that share a side with dev or test are dropped, and those that `cleaning` rejects. Raises UserError
    if there are fewer pairs than the splits need.
    """
    pairs = text.pairs
    _require(len(pairs), kind, kind, FEWEST)
    sizes = (held_out_size(len(pairs), MAX_TEST), held_out_size(len(pairs), MAX_DEV))
    block = max(MIN_BLOCK_SIZE, sizes[0] // BLOCKS_PER_TEST_SET)
    parts = _spread(text.documents, sizes) if len(text.documents) >= FEWEST_DOCUMENTS else None
    by_document = parts is not None and min(len(parts[0]), len(parts[1])) >= FEWEST_HELD_OUT
    test, dev, rest = parts if parts is not None and by_document else _spread(blocks(pairs, block), sizes)
    counts: Counter[str] = Counter()
    held_out = HeldOut((*dev, *test))
    train = tuple((sides[0], sides[1]) for sides in clean(rest, cleaning, held_out, counts, (0, 1)))
    _require(len(train), f"training {kind} after cleaning", kind, FEWEST_TRAINING)
    dropped = {rule: count for rule, count in counts.items() if rule in RULES}
    if kind != "pairs":
        copied = held_out.nearly_copied
        test = tuple(pair for number, pair in enumerate(test, len(dev)) if number not in copied)
        dev = tuple(pair for number, pair in enumerate(dev) if number not in copied)
        remaining = f"{kind} of dev or test have no near copy in the training {kind}"
        _require(min(len(dev), len(test)), remaining, kind, FEWEST_HELD_OUT // 2)
    unit: Literal["document", "block"] = "document" if by_document else "block"
    return Split(train, dev, test, unit, block, dropped, counts["near_copies"], kind)


def drop_shared_pairs(splits: Sequence[Split], cleaning: Cleaning) -> list[Split]:
    """Drop training pairs that share a side with a dev or test pair of any of several texts.

    Raises UserError if too few remain.
    """
    held_out, separated = HeldOut(*((*text.dev, *text.test) for text in splits)), []
    for text in splits:
        counts: Counter[str] = Counter()
        train = tuple((sides[0], sides[1]) for sides in clean(text.train, cleaning, held_out, counts, (0, 1)))
        _require(len(train), "training pairs that are in no other pair's dev or test", "pairs", FEWEST_TRAINING)
        dropped = Counter(text.dropped) + Counter({rule: count for rule, count in counts.items() if rule in RULES})
        separated.append(replace(text, train=train, dropped=dropped))
    return separated


def held_out_size(examples: int, maximum: int) -> int:
    """The size of a held-out split of so many examples, within FEWEST_HELD_OUT and a maximum."""
    return min(maximum, max(FEWEST_HELD_OUT, round(HELD_OUT_SHARE * examples)))


def _require(number: int, what: str, kind: Kind, minimum: int) -> None:
    if number < minimum:
        raise ArgumentError(
            f"{number:,} {what}: a fit needs {minimum:,} or more",
            where={"pairs": "pairs", "lines": "text", "conversations": "chat"}[kind],
            hint=f"{FEWEST_HELD_OUT} are held out as dev and as test set each, {FEWEST_TRAINING} are trained on.",
        )


def _spread(units: Sequence[tuple[Pair, ...]], sizes: tuple[int, int]) -> tuple[tuple[Pair, ...], ...]:
    """Distribute the units over test, dev and the rest.

    A held-out part is owed a share of every unit, and takes a unit once it is owed half of it.
    """
    total = sum(map(len, units))
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    owed = [0.0, 0.0]
    for unit in units:
        owed = [debt + len(unit) * size / total for debt, size in zip(owed, sizes, strict=True)]
        largest = max((0, 1), key=lambda part: owed[part])
        if owed[largest] >= len(unit) / 2:
            owed[largest] -= len(unit)
            parts[largest].extend(unit)
        else:
            parts[2].extend(unit)
    return tuple(map(tuple, parts))


@dataclass(frozen=True)
class TargetText:
    """Lines of the target language that are not in the pairs, with counts: read, kept, and dropped by rule."""

    lines: tuple[str, ...] = ()
    counts: Counter[str] | None = None

    @property
    def summary(self) -> str:
        """The amounts in one sentence."""
        counts = self.counts or Counter()
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in dropped_in_words(counts).items())
        remaining = f"text in addition to the pairs: {counts['kept']:,} of {counts['read']:,} lines"
        near = near_copies_in_words(counts["near_copies"])
        return remaining + (f"; dropped: {dropped}" if dropped else "") + (f"; {near}" if near else "")


def read_text(paths: Sequence[Path], pairs: Split, cleaning: Cleaning) -> TargetText:
    """Lines of the files that are in no split of the pairs. Raises UserError if none remains."""
    if not paths:
        return TargetText()
    counts: Counter[str] = Counter()
    rows = ((line,) for line in chain.from_iterable(map(reading.lines, paths)))
    held_out = HeldOut((*pairs.dev, *pairs.test))
    seen = SegmentDigests.of([digests((target,) for _, target in pairs.train)])
    lines = tuple(line for (line,) in clean(rows, cleaning, held_out, counts, (0,), seen))
    text = TargetText(lines, counts)
    if not lines:
        raise ArgumentError(f"nothing is left of the text ({text.summary})", where="text")
    return text
