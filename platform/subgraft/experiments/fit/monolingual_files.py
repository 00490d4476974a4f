"""Monolingual text of the domain, cleaned as the experiment's stage will clean it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.data.text import reading
from subgraft.data.text.cleaning import clean, digests, dropped_in_words, near_copies_in_words
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.held_out import HeldOut
from subgraft.experiments.fit.split import Split


@dataclass(frozen=True)
class TargetText:
    """Lines of the target language that are not in the pairs, with counts: read, kept, and dropped by rule."""

    lines: tuple[str, ...] = ()
    counts: Counter[str] | None = None

    @property
    def told(self) -> str:
        """What there is of it, in one sentence."""
        counts = self.counts or Counter()
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in dropped_in_words(counts).items())
        kept = f"text beside the pairs: {counts['kept']:,} of {counts['read']:,} lines"
        near = near_copies_in_words(counts["near_copies"])
        return kept + (f"; dropped: {dropped}" if dropped else "") + (f"; {near}" if near else "")


def read_text(paths: Sequence[Path], pairs: Split, cleaning: Cleaning) -> TargetText:
    """Lines of the files that are in no split of the pairs. Raises UserError if none remains."""
    if not paths:
        return TargetText()
    counts: Counter[str] = Counter()
    read = ((line,) for line in chain.from_iterable(map(reading.lines, paths)))
    held_out = HeldOut((*pairs.dev, *pairs.test))
    known = SegmentDigests.of([digests((target,) for _, target in pairs.train)])
    lines = tuple(line for (line,) in clean(read, cleaning, held_out, counts, (0,), known))
    found = TargetText(lines, counts)
    if not lines:
        raise UserError(f"nothing is left of the text ({found.told})", where="--text")
    return found
