"""Text in several languages that is not parallel: each language has its own segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from subgraft.config.settings_base import Split
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.text.fields import Sides


@dataclass(frozen=True)
class TextsSource(ResolvedSource):
    """A corpus of one text for each field. They are read, cleaned and counted apart; `read` gives one after the other.

    parts: by the field's name.
    """

    parts: Mapping[str, ResolvedSource]

    @property
    def generated(self) -> bool:  # type: ignore[override]
        return any(part.generated for part in self.parts.values())

    @property
    def on_disk(self) -> bool:  # type: ignore[override]
        return all(part.on_disk for part in self.parts.values())

    @property
    def parallel(self) -> bool:
        return False

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if any(split in part.splits for part in self.parts.values()))

    def identity(self) -> dict[str, object]:
        return {"texts": {name: part.identity() for name, part in self.parts.items()}}

    def size(self, split: Split) -> int:
        return sum(part.size(split) for part in self._with(split))

    def read(self, split: Split) -> Iterator[Sides]:
        for part in self._with(split):
            yield from part.read(split)

    def remarks(self, split: Split) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for part in self._with(split):
            counts.update(part.remarks(split))
        return counts

    def _with(self, split: Split) -> list[ResolvedSource]:
        return [part for part in self.parts.values() if split in part.splits]
