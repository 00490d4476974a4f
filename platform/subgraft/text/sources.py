"""Where corpora come from: resolved to an identity, to splits, and to segments that stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from subgraft.errors import UserError
from subgraft.files import file_digest
from subgraft.settings import CorpusSource, Languages, Split, UrlFile
from subgraft.text import download, mtdata, reading
from subgraft.text.cleaning import Sides
from subgraft.text.places import SPLITS, find, find_file, split_files

Domain = Literal["everyday", "law"]
GENERATED_DOMAINS: tuple[Domain, ...] = ("everyday", "law")
GENERATED_COUNTS: Mapping[Split, int] = {"train": 20_000, "dev": 500, "test": 1_000}
GENERATED_SEED = 1
# The built-in corpus, source first as its generator yields it.
GENERATED_LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class ResolvedSource(ABC):
    """A corpus that has been found. A monolingual one has one side, others a source and a target side."""

    languages: Languages
    limit: Mapping[Split, int]
    _sizes: dict[Split, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    generated = False

    @property
    def monolingual(self) -> bool:
        return self.languages.source == self.languages.target

    @property
    @abstractmethod
    def splits(self) -> tuple[Split, ...]:
        """The splits there are, in the order train, dev, test."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What the segments are a function of, for recipes: JSON-able, and free of paths and addresses."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """How many segments `read` yields. Fetches what is elsewhere, and reads files to their end.

        Raises UserError for a side that is empty, not UTF-8 or not as long as the other one.
        """

    @abstractmethod
    def read(self, split: Split) -> Iterator[Sides]:
        """The segments of a split, (source, target) or (source,); raises as `size` does, before the first one."""


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
        return {"generated": self.domain, "counts": counts, "seed": GENERATED_SEED}

    def size(self, split: Split) -> int:
        return self.limit.get(split, GENERATED_COUNTS[split])

    def read(self, split: Split) -> Iterator[Sides]:
        from subgraft.text import generated

        swapped = self.languages.source != GENERATED_LANGUAGES[0]
        for pair in generated.pairs(self.domain, split, self.size(split), GENERATED_SEED):
            yield pair[::-1] if swapped else pair


@dataclass(frozen=True)
class _FilesSource(ResolvedSource):
    """Whatever ends up as files that agree line by line."""

    @abstractmethod
    def _origin(self) -> dict[str, object]: ...

    def identity(self) -> dict[str, object]:
        return {**self._origin(), "limit": {split: self.limit[split] for split in SPLITS if split in self.limit}}

    @abstractmethod
    def paths(self, split: Split) -> tuple[Path, ...]:
        """The file of each side; what is elsewhere is fetched first."""

    def size(self, split: Split) -> int:
        return min(self._lines(split), self.limit.get(split, self._lines(split)))

    def read(self, split: Split) -> Iterator[Sides]:
        total, kept = self._lines(split), self.size(split)
        for at, sides in enumerate(zip(*map(reading.lines, self.paths(split)), strict=True)):
            # A limit takes segments evenly spaced, as neighbours in a file are often of one document.
            if (at + 1) * kept // total > at * kept // total:
                yield sides

    def _lines(self, split: Split) -> int:
        if split not in self._sizes:
            self._sizes[split] = self._counted(split)
        return self._sizes[split]

    def _counted(self, split: Split) -> int:
        paths = self.paths(split)
        counts = [reading.count(path) for path in paths]
        told = " and ".join(f"{path}: {count:,}" for path, count in zip(paths, counts, strict=True))
        if min(counts) == 0:
            raise UserError(f"an empty corpus (lines of {told})", where=f"{split} split")
        if len(set(counts)) > 1:
            mend = "Parallel files must agree line by line."
            raise UserError(f"unequal numbers of lines ({told})", where=f"{split} split", mend=mend)
        return counts[0]


@dataclass(frozen=True)
class FileSource(_FilesSource):
    """Files on disk, known by the digests of their bytes."""

    files: Mapping[Split, tuple[Path, ...]]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.files)

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file_digest(path) for path in self.files[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.files[split]


@dataclass(frozen=True)
class UrlSource(_FilesSource):
    """Files to download, known by their declared digests: the same identity as the same files on disk."""

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
class MtdataSource(_FilesSource):
    """Datasets of mtdata's index, whose ids carry a version."""

    identifiers: Mapping[Split, str]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.identifiers)

    def _origin(self) -> dict[str, object]:
        return {"mtdata": {split: self.identifiers[split] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return mtdata.fetch(self.identifiers[split], self.languages)


def resolve(
    source: CorpusSource, languages: Languages, base: Path, *, progress: download.Progress | None = None
) -> ResolvedSource:
    """Find a corpus: relative paths in `base` (the configuration's folder), then under SUBGRAFT_DATA.

    Equal languages mean a monolingual corpus. Nothing is downloaded yet. Raises UserError naming the places looked at.
    """
    if source.generated:
        if {languages.source, languages.target} != set(GENERATED_LANGUAGES):
            asked = f"{languages.source} to {languages.target}"
            raise UserError(f"the generated corpus is English and German (en, de), not {asked}", where="languages")
        return GeneratedSource(languages, source.limit, source.generated)
    if source.folder:
        return FileSource(languages, source.limit, split_files(find(source.folder, base), languages))
    if source.files:
        _check_sides({split: len(files) for split, files in source.files.items()}, languages, "files")
        found = {split: tuple(find_file(name, base) for name in names) for split, names in source.files.items()}
        return FileSource(languages, source.limit, found)
    if source.urls:
        _check_sides({split: len(urls) for split, urls in source.urls.items()}, languages, "urls")
        return UrlSource(languages, source.limit, source.urls, progress)
    return MtdataSource(languages, source.limit, source.mtdata or {})


def _check_sides(counts: Mapping[Split, int], languages: Languages, kind: str) -> None:
    expected = 1 if languages.source == languages.target else 2
    for split, count in counts.items():
        if count != expected:
            what = "one file, as both languages are the same" if expected == 1 else "two files, source then target"
            raise UserError(f"{count} given; expected {what}", where=f"{kind}.{split}")
