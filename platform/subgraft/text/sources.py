"""Where corpora come from: resolved to an identity, to splits, and to segments that stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from subgraft.config.base import Split
from subgraft.config.corpora import CorpusSource, Languages, UrlFile
from subgraft.errors import UserError
from subgraft.files import file_digest
from subgraft.text import download, generated, mtdata
from subgraft.text.cleaning import Sides
from subgraft.text.columns import ColumnsSource
from subgraft.text.places import SPLITS, find, find_file, single_files, split_files
from subgraft.text.resolved import FilesSource, ResolvedSource
from subgraft.text.squad import Pairing, SquadSource
from subgraft.text.together import TogetherSource

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
        swapped = self.languages.source != GENERATED_LANGUAGES[0]
        for pair in generated.pairs(self.domain, split, self.size(split), GENERATED_SEED):
            yield pair[::-1] if swapped else pair


@dataclass(frozen=True)
class FileSource(FilesSource):
    """Files on disk, known by the digests of their bytes."""

    files: Mapping[Split, tuple[Path, ...]]

    on_disk = True

    @property
    def monolingual(self) -> bool:
        return all(len(paths) == 1 for paths in self.files.values())

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.files)

    def _origin(self) -> dict[str, object]:
        return {"files": {split: [file_digest(path) for path in self.files[split]] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return self.files[split]


@dataclass(frozen=True)
class UrlSource(FilesSource):
    """Files to download, known by their declared digests: the same identity as the same files on disk."""

    urls: Mapping[Split, tuple[UrlFile, ...]]
    progress: download.Progress | None = None

    @property
    def monolingual(self) -> bool:
        return all(len(files) == 1 for files in self.urls.values())

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

    identifiers: Mapping[Split, str]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.identifiers)

    def _origin(self) -> dict[str, object]:
        return {"mtdata": {split: self.identifiers[split] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return mtdata.fetch(self.identifiers[split], self.languages)


def resolve(
    source: CorpusSource,
    languages: Languages,
    base: Path,
    *,
    pairing: Pairing | None = None,
    progress: download.Progress | None = None,
) -> ResolvedSource:
    """Find a corpus: relative paths in `base` (the configuration's folder), then under SUBGRAFT_DATA.

    Equal languages mean a monolingual corpus, unless it has two sides all the same. pairing: what the task makes of a
    question, for questions. Nothing is downloaded yet. Raises UserError naming the places looked at.
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
    if source.squad:
        if pairing is None:
            raise UserError("squad holds questions, which `task: question-generation` is about", where="corpora")
        return SquadSource(languages, source.limit, _one_file_a_split(source.squad, "json", base), pairing)
    if source.columns:
        columns = source.columns
        given = columns.folder if columns.files is None else columns.files
        assert given is not None
        files = _one_file_a_split(given, "jsonl" if columns.named else "tsv", base)
        return ColumnsSource(languages, source.limit, files, columns)
    if source.together:
        return _together(tuple(resolve(part, languages, base, progress=progress) for part in source.together))
    return MtdataSource(languages, source.limit, source.mtdata or {})


def _together(parts: tuple[ResolvedSource, ...]) -> TogetherSource:
    if len({part.monolingual for part in parts}) > 1:
        raise UserError("some parts have one side, some two: they are no one corpus", where="together")
    return TogetherSource(parts[0].languages, {}, parts)


def _one_file_a_split(given: str | Mapping[Split, str], ending: str, base: Path) -> Mapping[Split, Path]:
    if isinstance(given, str):
        return single_files(find(given, base), ending)
    return {split: find_file(name, base) for split, name in given.items()}


def _check_sides(counts: Mapping[Split, int], languages: Languages, kind: str) -> None:
    """Two sides of two languages; of one language one side, or two, the same in every split."""
    two = languages.source != languages.target or max(counts.values()) == 2
    for split, count in counts.items():
        if count != 1 + two:
            what = "two files, source then target" if two else "one file, as both languages are the same, or a pair"
            raise UserError(f"{count} given; expected {what}", where=f"{kind}.{split}")
