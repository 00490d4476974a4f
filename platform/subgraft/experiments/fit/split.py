"""Split a text into training, dev and test: by complete documents, or by blocks of neighbouring lines.

Neighbouring lines of one text share words, names and whole phrases. Held out one by one, a dev or test line would have
its neighbours in the training text, which flatters every model, and most the one with the vocabulary learnt there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.data.text.cleaning import RULES, clean, near_copies_in_words
from subgraft.data.text.held_out import HeldOut
from subgraft.experiments.fit.parallel_files import Documents, Pair, blocks

# A tenth of the pairs each, within these bounds. Below 50 sentences an interval of BLEU is wider than any gain.
HELD_OUT_SHARE = 0.1
FEWEST_HELD_OUT = 50
MOST_DEV, MOST_TEST = 200, 500
FEWEST_TRAINING = 200
FEWEST = FEWEST_TRAINING + 2 * FEWEST_HELD_OUT
# With fewer documents, dev and test would be of one or two of them.
FEWEST_DOCUMENTS = 20
SHORTEST_BLOCK, BLOCKS_OF_TEST = 25, 8


@dataclass(frozen=True)
class Split:
    """A split text.

    Attributes:
        unit: What was not divided.
        dropped: Training pairs by the cleaning rule that dropped them.
        near_copies: Dev and test pairs with near copies in the training pairs.
    """

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    unit: Literal["document", "block"]
    block: int
    dropped: Mapping[str, int]
    near_copies: int = 0

    @property
    def told(self) -> str:
        """How it was done, in one sentence."""
        kept = (
            "whole documents, as blank lines mark them"
            if self.unit == "document"
            else f"blocks of {self.block} lines on end, spread evenly over the files"
        )
        rules = ", ".join(f"{count:,} {RULES[rule]}" for rule, count in self.dropped.items())
        near = near_copies_in_words(self.near_copies)
        dropped = f"; dropped from the training pairs: {rules}" if rules else ""
        return f"held out: {kept}{dropped}" + (f"; {near}" if near else "")


def split(text: Documents, cleaning: Cleaning) -> Split:
    """The same text is always split the same way; nothing is drawn.

    Training pairs with a side that dev or test has too are dropped, and those that `cleaning` does not let pass.
    Raises UserError where there are fewer pairs than the splits need.
    """
    pairs = text.pairs
    _require(len(pairs), "pairs", FEWEST)
    wanted = (_size(len(pairs), MOST_TEST), _size(len(pairs), MOST_DEV))
    block = max(SHORTEST_BLOCK, wanted[0] // BLOCKS_OF_TEST)
    parts = _spread(text.documents, wanted) if len(text.documents) >= FEWEST_DOCUMENTS else None
    by_document = parts is not None and min(len(parts[0]), len(parts[1])) >= FEWEST_HELD_OUT
    test, dev, rest = parts if parts is not None and by_document else _spread(blocks(pairs, block), wanted)
    counts: Counter[str] = Counter()
    held_out = HeldOut((*dev, *test))
    train = tuple((sides[0], sides[1]) for sides in clean(rest, cleaning, held_out, counts, (0, 1)))
    _require(len(train), "training pairs after cleaning", FEWEST_TRAINING)
    dropped = {rule: count for rule, count in counts.items() if rule in RULES}
    return Split(train, dev, test, "document" if by_document else "block", block, dropped, counts["near_copies"])


def _size(pairs: int, most: int) -> int:
    return min(most, max(FEWEST_HELD_OUT, round(HELD_OUT_SHARE * pairs)))


def _require(found: int, what: str, needed: int) -> None:
    if found < needed:
        raise UserError(
            f"{found:,} {what}: a fit needs {needed:,} or more",
            where="--pairs",
            hint=f"{FEWEST_HELD_OUT} are held out as dev and as test set each, {FEWEST_TRAINING} are trained on.",
        )


def _spread(units: Sequence[tuple[Pair, ...]], wanted: tuple[int, int]) -> tuple[tuple[Pair, ...], ...]:
    """Test, dev and the rest. A held-out part is owed its share of every unit, and takes one when owed half of it."""
    total = sum(map(len, units))
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    owed = [0.0, 0.0]
    for unit in units:
        owed = [debt + len(unit) * size / total for debt, size in zip(owed, wanted, strict=True)]
        most = max((0, 1), key=lambda part: owed[part])
        if owed[most] >= len(unit) / 2:
            owed[most] -= len(unit)
            parts[most].extend(unit)
        else:
            parts[2].extend(unit)
    return tuple(map(tuple, parts))
