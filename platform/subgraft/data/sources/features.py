"""Features of anything, with a text for each example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.files import file_digest
from subgraft.config.settings_base import Split
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import FilesSource
from subgraft.data.text import reading
from subgraft.data.text.features import look_through
from subgraft.data.text.fields import Sides


@dataclass(frozen=True)
class FeaturesSource(FilesSource):
    """A file of texts and a safetensors file for each split; the fields are the text and the features."""

    texts: Mapping[Split, Path]

    on_disk = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.texts)

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.texts[split], self.tensor(split, self._name)

    def tensor(self, split: Split, name: str) -> Path:
        return self.texts[split].parent / f"{split}.safetensors"

    @property
    def _name(self) -> str:
        return self.fields[1].name

    def _origin(self) -> dict[str, object]:
        digests = {split: [file_digest(path) for path in self.paths(split)] for split in self.splits}
        return {"features": self._name, "files": digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return ((line, str(row)) for row, line in enumerate(reading.lines(self.texts[split])))

    def _counted(self, split: Split) -> int:
        """Validates all features, as all texts, so that no training fails later."""
        count, name = self._count_segments(split), self._name
        look_through({each: self.tensor(each, name) for each in self.splits}, split, name, count)
        return count
