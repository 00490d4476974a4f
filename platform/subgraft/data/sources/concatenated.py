"""A corpus that concatenates several sources."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from subgraft.config.settings_base import Split
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.text.fields import Sides

# When a segment's turn comes, among those of all parts; then the number of its part, and the segment.
_Turn = tuple[float, int, Sides]


@dataclass(frozen=True)
class TogetherSource(ResolvedSource):
    """The segments of all parts; a part without a split adds nothing to it. All parts have as many sides.

    Training text is one part after the other, so that neighbours stay neighbours. Dev and test take turns, each part as
    often as it is large: trainings are watched by the first sentences of dev.
    """

    parts: tuple[ResolvedSource, ...]

    @property
    def generated(self) -> bool:  # type: ignore[override]
        return any(part.generated for part in self.parts)

    @property
    def on_disk(self) -> bool:  # type: ignore[override]
        return all(part.on_disk for part in self.parts)

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self._with(split))

    def identity(self) -> dict[str, object]:
        return {"together": [part.identity() for part in self.parts]}

    def size(self, split: Split) -> int:
        return sum(part.size(split) for part in self._with(split))

    def read(self, split: Split) -> Iterator[Sides]:
        parts = self._with(split)
        if split == "train":
            for part in parts:
                yield from part.read(split)
            return
        turns = (_turns(number, part.read(split), part.size(split)) for number, part in enumerate(parts))
        for _, _, sides in heapq.merge(*turns):
            yield sides

    def remarks(self, split: Split) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for part in self._with(split):
            counts.update(part.remarks(split))
        return counts

    def _with(self, split: Split) -> list[ResolvedSource]:
        return [part for part in self.parts if split in part.splits]


def _turns(number: int, segments: Iterator[Sides], size: int) -> Iterator[_Turn]:
    """Segments at equal distances between 0 and 1."""
    for at, sides in enumerate(segments):
        yield (at + 0.5) / size, number, sides
