"""Sources: parallel files, downloads, mtdata, text with features, the built-in corpus, and several sources together."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from subgraft.base.files import file_digest
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split
from subgraft.config.source_files import UrlFile
from subgraft.data.sources import download, generated, mtdata
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import DocumentsSource, FilesSource, ResolvedSource, SeveralSources
from subgraft.data.text import reading
from subgraft.data.text.features import look_through
from subgraft.data.text.fields import Sides

# When a segment's turn comes, among those of all parts; then the number of its part, and the segment.
_Turn = tuple[float, int, Sides]


@dataclass(frozen=True)
class TogetherSource(SeveralSources):
    """The segments of all parts; a part without a split adds nothing to it. All parts have as many sides.

    Training text is one part after the other, so that neighbours stay neighbours. Dev and test take turns, each part as
    often as it is large: trainings are watched by the first sentences of dev.
    """

    parts: tuple[ResolvedSource, ...]

    @property
    def _sources(self) -> Collection[ResolvedSource]:
        return self.parts

    def identity(self) -> dict[str, object]:
        return {"together": [part.identity() for part in self.parts]}

    def read(self, split: Split) -> Iterator[Sides]:
        if split == "train":
            yield from super().read(split)
            return
        parts = enumerate(self._with(split))
        turns = (_turns(number, part.read(split), part.size(split)) for number, part in parts)
        for _, _, sides in heapq.merge(*turns):
            yield sides


def _turns(number: int, segments: Iterator[Sides], size: int) -> Iterator[_Turn]:
    """Segments at equal distances between 0 and 1."""
    for at, sides in enumerate(segments):
        yield (at + 0.5) / size, number, sides


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


Domain = Literal["everyday", "law"]
GENERATED_DOMAINS: tuple[Domain, ...] = ("everyday", "law")
GENERATED_COUNTS: Mapping[Split, int] = {"train": 20_000, "dev": 500, "test": 1_000}
GENERATED_SEED = 1
# The built-in corpus, source first as its generator yields it.
GENERATED_LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class GeneratedSource(ResolvedSource):
    """A domain of the built-in corpus."""

    domain: Domain

    generated = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return SPLITS

    def identity(self) -> dict[str, object]:
        counts = {split: self.size(split) for split in SPLITS}
        return {"generated": self.domain, "version": generated.VERSION, "counts": counts, "seed": GENERATED_SEED}

    def size(self, split: Split) -> int:
        return self.limit.get(split, GENERATED_COUNTS[split])

    def read(self, split: Split) -> Iterator[Sides]:
        swapped = self.fields[0].language != GENERATED_LANGUAGES[0]
        for pair in generated.pairs(self.domain, split, self.size(split), GENERATED_SEED):
            yield pair[::-1] if swapped else pair


@dataclass(frozen=True)
class FileSource(DocumentsSource):
    """Files on disk, identified by their digests: one for each field, then the places of documents."""

    files: Mapping[Split, tuple[Path, ...]]
    documented: bool = False

    on_disk = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.files)

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file_digest(path) for path in self.files[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.files[split]


@dataclass(frozen=True)
class UrlSource(FilesSource):
    """Files to download, identified by their declared digests, like the same files on disk."""

    urls: Mapping[Split, tuple[UrlFile, ...]]
    progress: download.Progress | None = None

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.urls)

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file.sha256 for file in self.urls[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return tuple(download.fetch(file, progress=self.progress) for file in self.urls[split])


@dataclass(frozen=True)
class MtdataSource(FilesSource):
    """Datasets of mtdata's index, whose ids carry a version."""

    languages: Languages
    identifiers: Mapping[Split, str]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.identifiers)

    def _origin(self) -> dict[str, object]:
        return {"mtdata": {split: self.identifiers[split] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return mtdata.fetch(self.identifiers[split], self.languages)
