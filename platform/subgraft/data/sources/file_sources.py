"""Sources of parallel files, downloads, mtdata and features, and the built-in corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from subgraft.base.files import file_digest
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split
from subgraft.config.source_files import UrlFile
from subgraft.data.sources import download, generated, mtdata
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import DocumentsSource, FilesSource, ResolvedSource
from subgraft.data.text.fields import Sides

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
