"""Sources: parallel files, downloads, mtdata, text with features, the built-in corpus, and several sources together."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split
from subgraft.config.source_files import UrlFile
from subgraft.data.sources import download, generated, mtdata
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import ResolvedSource, SeveralSources, SplitFilesSource
from subgraft.data.text import reading
from subgraft.data.text.document_cleaning import name_in_part
from subgraft.data.text.features import validate_features
from subgraft.data.text.fields import Place, Sides


@dataclass(frozen=True)
class TogetherSource(SeveralSources):
    """The segments of all parts; a part without a split adds nothing to it. All parts have the same number of sides.

    Training text has one part after the other, so that neighbouring segments stay together. In dev and test the parts
    are interleaved in proportion to their sizes, document by document, because trainings are scored on the first
    sentences of dev.
    """

    parts: tuple[ResolvedSource, ...]
    multipliers: tuple[int, ...] = ()

    @property
    def _sources(self) -> Collection[ResolvedSource]:
        return self.parts

    def identity(self) -> dict[str, object]:
        times = {"multipliers": list(self.multipliers)} if self.multipliers else {}
        return {"together": [part.identity() for part in self.parts], **times}

    def read_numbered(self, split: Split) -> Iterator[Sides]:
        """The segments, part after part, each with the part's number as an extra cell or in its document's name."""
        for number, part in enumerate(self.parts):
            if split in part.splits:
                segments = self._part(number, split)
                yield from segments if self.documented else ((*sides, str(number)) for sides in segments)

    def read(self, split: Split) -> Iterator[Sides]:
        return (sides for _, sides in self.read_parts(split))

    def read_parts(self, split: Split) -> Iterator[tuple[int, Sides]]:
        numbers = [number for number, part in enumerate(self.parts) if split in part.splits]
        if split == "train":
            for number in numbers:
                yield from ((number, sides) for sides in self._part(number, split))
            return
        for _, number, segments in heapq.merge(*(self._turns(number, split) for number in numbers)):
            yield from ((number, sides) for sides in segments)

    @property
    def documented(self) -> bool:  # type: ignore[override]
        return any(part.documented for part in self.parts)

    def _part(self, number: int, split: Split) -> Iterator[Sides]:
        """The segments of a part; the names of its documents are unique among all parts."""
        segments = self.parts[number].read(split)
        if not self.documented:
            return segments
        places = ((cells, Place.parse(cells[-1])) for cells in segments)
        return (
            (*cells[:-1], str(Place(name_in_part(place.document, number), place.position))) for cells, place in places
        )

    def _turns(self, number: int, split: Split) -> Iterator[tuple[float, int, list[Sides]]]:
        """The segments or documents of a part, each with its relative position (0 to 1) and the part's number."""
        size, done = self.parts[number].size(split), 0
        numbered = enumerate(self._part(number, split))
        documented = self.documented
        groups = groupby(numbered, lambda item: Place.parse(item[1][-1]).document if documented else item[0])
        for segments in ([cells for _, cells in group] for _, group in groups):
            yield (done + len(segments) / 2) / size, number, segments
            done += len(segments)


@dataclass(frozen=True)
class FeaturesSource(SplitFilesSource):
    """A file of texts for each split, and a safetensors file next to it; the fields are the text and the features."""

    files: Mapping[Split, Path]

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.files[split], self.tensor(split, self._name)

    def tensor(self, split: Split, name: str) -> Path:
        return self.files[split].parent / f"{split}.safetensors"

    @property
    def _name(self) -> str:
        return self.fields[1].name

    def _origin(self) -> dict[str, object]:
        return {"features": self._name, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return ((line, str(row)) for row, line in enumerate(reading.lines(self.files[split])))

    def _count_split(self, split: Split) -> int:
        """Count the examples and validate all features, so that no training fails later."""
        count, name = self._count_segments(split), self._name
        validate_features({each: self.tensor(each, name) for each in self.splits}, split, name, count)
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
class FileSource(SplitFilesSource):
    """Files on disk, identified by their digests: one for each field, then the places of documents."""

    documented: bool = False
    labelled: bool = False

    def _origin(self) -> dict[str, object]:
        return {"files": self._digests} | ({"labelled": True} if self.labelled else {})


@dataclass(frozen=True)
class UrlSource(SplitFilesSource):
    """Files to download, identified by their declared digests, like the same files on disk."""

    files: Mapping[Split, tuple[UrlFile, ...]]
    progress: download.Progress | None = None

    on_disk = False

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file.sha256 for file in self.files[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return tuple(download.fetch(file, progress=self.progress) for file in self.files[split])


@dataclass(frozen=True)
class MtdataSource(SplitFilesSource):
    """Datasets of mtdata's index, whose ids carry a version: `files` has the id of each split."""

    files: Mapping[Split, str]
    languages: Languages

    on_disk = False

    def _origin(self) -> dict[str, object]:
        return {"mtdata": {split: self.files[split] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return mtdata.fetch(self.files[split], self.languages)
