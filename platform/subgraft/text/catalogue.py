"""What corpora there are, whether one is sound, and getting one into a folder."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from subgraft.config.base import Split
from subgraft.config.corpora import Cleaning, CorpusSource, Languages
from subgraft.errors import UserError
from subgraft.files import file_digest
from subgraft.text import reading
from subgraft.text.cleaning import Sides
from subgraft.text.corpus import Corpus, Progress, build, require_empty
from subgraft.text.places import SPLITS
from subgraft.text.resolved import FilesSource, ResolvedSource
from subgraft.text.sources import (
    GENERATED_COUNTS,
    GENERATED_DOMAINS,
    GENERATED_LANGUAGES,
    resolve,
)
from subgraft.text.squad import Pairing

MANIFEST = "MANIFEST.tsv"
# {split}.{language code}, plain or gzipped; codes as in "en", "src" or "pt_BR".
_SPLIT_FILE = re.compile(r"(train|dev|test)\.([a-z]{2,3}(?:[_-][A-Za-z]{2,4})?)(?:\.gz)?")


@dataclass(frozen=True)
class Listing:
    """A corpus that can be asked for: `name` is what stands after `generated:` or `folder:`."""

    name: str
    kind: Literal["generated", "folder"]
    languages: tuple[str, ...]
    segments: Mapping[Split, int]


@dataclass(frozen=True)
class SideStatistics:
    """One side of a split that was read to its end. Words are what white space separates.

    sha256: of the file's bytes, where it is a file on disk.  declared: a manifest above it says the same digest.
    """

    split: Split
    language: str
    segments: int
    words: int
    characters: int
    sha256: str | None = None
    declared: bool = False

    @property
    def mean_characters(self) -> float:
        return self.characters / self.segments if self.segments else 0.0


def available(data: Path | None) -> list[Listing]:
    """The built-in domains (at their default sizes), then the parallel folders under `data`, by name."""
    built_in = [Listing(domain, "generated", GENERATED_LANGUAGES, GENERATED_COUNTS) for domain in GENERATED_DOMAINS]
    if data is None:
        return built_in
    if not data.is_dir():
        raise UserError("SUBGRAFT_DATA names a folder that is not there", where=str(data))
    declared = _manifest(data / MANIFEST, "lines")
    folders = sorted(Path(folder) for folder, _, _ in os.walk(data))
    return built_in + [found for folder in folders if (found := _listing(folder, data, declared)) is not None]


def check(
    source: CorpusSource, languages: Languages, base: Path, pairing: Pairing | None = None
) -> list[SideStatistics]:
    """Read every split of a source to its end, uncleaned, and say what it holds.

    Files under a folder with a MANIFEST.tsv (columns `file` and `sha256`) are compared with it.
    Raises UserError for whatever makes the source unusable: missing, unequal, empty, not UTF-8, another digest.
    """
    resolved = resolve(source, languages, base, pairing=pairing)
    codes = (languages.source, languages.target)[: 1 if resolved.monolingual else 2]
    checked: list[SideStatistics] = []
    for split in resolved.splits:
        digests = _verified(resolved, split, len(codes))
        resolved.size(split)
        for language, totals, digest in zip(codes, _totals(resolved.read(split), len(codes)), digests, strict=True):
            checked.append(SideStatistics(split, language, *totals, *digest))
    return checked


def get(
    source: CorpusSource,
    languages: Languages,
    cleaning: Cleaning,
    out: Path,
    *,
    base: Path = Path(),
    pairing: Pairing | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Build a corpus into `out` (absent or empty), which appears whole, with its missing parents, or not at all."""
    require_empty(out)
    nearest = next(parent for parent in out.absolute().parents if parent.exists())
    with tempfile.TemporaryDirectory(prefix=".subgraft-", dir=nearest) as folder:
        beside = Path(folder) / out.name
        build(source, languages, cleaning, beside, base=base, pairing=pairing, progress=progress)
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.rename(out)
    return Corpus.open(out)


def _listing(folder: Path, data: Path, declared: Mapping[str, str]) -> Listing | None:
    files: dict[Split, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if named := _SPLIT_FILE.fullmatch(path.name):
            files.setdefault(cast(Split, named[1]), {})[named[2]] = path
    if not files:
        return None
    languages = tuple(dict.fromkeys(code for sides in files.values() for code in sides))
    segments = {split: _lines(next(iter(files[split].values())), data, declared) for split in SPLITS if split in files}
    return Listing(folder.relative_to(data).as_posix(), "folder", languages, segments)


def _lines(path: Path, data: Path, declared: Mapping[str, str]) -> int:
    told = declared.get(path.relative_to(data).as_posix(), "")
    return int(told) if told.isdecimal() else reading.count(path)


def _manifest(path: Path, column: str) -> dict[str, str]:
    if not path.is_file():
        return {}
    rows = csv.DictReader(reading.lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["file"]: row[column] for row in rows if row.get("file") and row.get(column)}


def _verified(resolved: ResolvedSource, split: Split, sides: int) -> Iterable[tuple[str | None, bool]]:
    if not (resolved.on_disk and isinstance(resolved, FilesSource)):
        return [(None, False)] * sides
    digests = [_digest(path) for path in resolved.paths(split)]
    # Both sides may come from one file.
    return digests if len(digests) == sides else digests * sides


def _digest(path: Path) -> tuple[str, bool]:
    found = file_digest(path)
    above = next((folder for folder in path.resolve().parents if (folder / MANIFEST).is_file()), None)
    if above is None:
        return found, False
    name = path.resolve().relative_to(above).as_posix()
    declared = _manifest(above / MANIFEST, "sha256").get(name)
    if declared is not None and declared != found:
        hint = f"{above / MANIFEST} says {declared}. Fetch the file again."
        raise UserError(f"the file has SHA-256 {found}", where=str(path), hint=hint)
    return found, declared is not None


def _totals(segments: Iterator[Sides], sides: int) -> list[tuple[int, int, int]]:
    """(segments, words, characters) of each side."""
    totals = [(0, 0, 0)] * sides
    for segment in segments:
        for at, text in enumerate(segment):
            lines, words, characters = totals[at]
            totals[at] = (lines + 1, words + len(text.split()), characters + len(text))
    return totals
