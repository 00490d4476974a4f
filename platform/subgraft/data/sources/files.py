"""Parallel files of lines, or one file: a path for each split and side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import find_file
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Field, Place, Sides


class Files(Settings):
    """files: paths per split, source then target (or one, monolingual)."""

    files: dict[Split, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class FileSource(SplitFilesSource):
    """Files on disk, identified by their digests: one for each field, then the places of documents."""

    documented: bool = False
    labelled: bool = False

    def _origin(self) -> dict[str, object]:
        return {"files": self._digests} | ({"labelled": True} if self.labelled else {})


@dataclass(frozen=True)
class BlankLinesSource(FileSource):
    """Files with a segment per line and blank lines between documents, on the same lines of parallel files."""

    documented: bool = True

    def _origin(self) -> dict[str, object]:
        return {**super()._origin(), "documents": "blank-lines"}

    def _segments(self, split: Split) -> Iterator[Sides]:
        rows = zip(*map(reading.lines, self.paths(split)), strict=True)
        for number, document in enumerate(split_at_blank_lines(rows, self.paths(split))):
            for position, cells in enumerate(document):
                yield (*cells, str(Place(str(number), position)))

    def _count_split(self, split: Split) -> int:
        super()._count_split(split)
        return self._count_segments(split)


def split_at_blank_lines(rows: Iterator[Sides], paths: Sequence[Path]) -> Iterator[Iterator[Sides]]:
    """The rows of each document. Raises UserError for a line that is blank in one of several parallel files."""

    def is_blank(numbered: tuple[int, Sides]) -> bool:
        blank = [not cell.strip() for cell in numbered[1]]
        if any(blank) != all(blank):
            where = f"{paths[blank.index(True)]}:{numbered[0]}"
            hint = "Blank lines end documents, so parallel files must have them on the same lines."
            raise UserError("a blank line, which another file does not have there", where=where, hint=hint)
        return all(blank)

    for blank, document in groupby(enumerate(rows, 1), is_blank):
        if not blank:
            yield (cells for _, cells in document)


def source_of(request: Request, fields: tuple[Field, ...], files: Mapping[Split, tuple[Path, ...]]) -> FileSource:
    """A source of one file per field, in which blank lines end documents if `documents` is set."""
    kind = FileSource if request.source.documents is None else BlankLinesSource
    return kind(fields, request.limit, files)


def check_sides(counts: Mapping[Split, int], languages: Languages, kind: str) -> None:
    """Two languages need two files per split; one language needs one or two, the same number in every split."""
    two = languages.source != languages.target or max(counts.values()) == 2
    for split, count in counts.items():
        if count != 1 + two:
            what = "two files, source then target" if two else "one file, as both languages are the same, or a pair"
            raise UserError(f"{count} given; expected {what}", where=f"{kind}.{split}")


def _resolve(request: Request) -> ResolvedSource:
    check_sides({split: len(files) for split, files in request.settings.items()}, request.pair, "files")
    files = {split: tuple(find_file(name, request.base) for name in names) for split, names in request.settings.items()}
    return source_of(request, request.fields(files), files)


FILES = SourceKind(
    name="files",
    fields=Files,
    resolve=_resolve,
    takes=("limit", "documents"),
    one_text=lambda files: max(map(len, files.values())) == 1,
)
