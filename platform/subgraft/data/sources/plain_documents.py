"""Plain text with documents: separated by blank lines (BERT's format), or a file for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Split
from subgraft.data.sources.file_sources import FileSource
from subgraft.data.sources.monolingual import UnsplitSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Place, Sides, whole_documents
from subgraft.data.text.sentences import sentence_limits


@dataclass(frozen=True)
class BlankLinesSource(FileSource):
    """Files with a segment per line and blank lines between documents, on the same lines of parallel files."""

    documented: bool = True

    def _origin(self) -> dict[str, object]:
        return {**super()._origin(), "documents": "blank-lines"}

    def _segments(self, split: Split) -> Iterator[Sides]:
        rows = zip(*map(reading.lines, self.paths(split)), strict=True)
        for number, document in enumerate(_split_at_blank_lines(rows, self.paths(split))):
            for position, cells in enumerate(document):
                yield (*cells, str(Place(str(number), position)))

    def _count_split(self, split: Split) -> int:
        super()._count_split(split)
        return self._count_segments(split)


def _split_at_blank_lines(rows: Iterator[Sides], paths: Sequence[Path]) -> Iterator[Iterator[Sides]]:
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


@dataclass(frozen=True)
class PlainDocumentsSource(UnsplitSource):
    """The documents of one language. Complete documents are held out.

    Attributes:
        files: One file with blank lines between documents, or one file for each document.
    """

    documented = True

    def _origin(self) -> dict[str, object]:
        form = self.settings.model_dump(mode="json", exclude={"folder", "tagged", "languages"})
        return {"plain": form, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        splits = self._splits
        for number, segments in enumerate(self._texts()):
            if splits.get(number, "train") == split:
                for position, segment in enumerate(segments):
                    yield segment, str(Place(str(number), position))

    def _count_split(self, split: Split) -> int:
        sizes, splits = self._document_sizes, self._splits
        return sum(size for number, size in enumerate(sizes) if splits.get(number, "train") == split)

    @cached_property
    def _document_sizes(self) -> list[int]:
        sizes = [sum(1 for _ in segments) for segments in self._texts()]
        if not sum(sizes):
            raise UserError(
                "an empty corpus", where=str(self.files[0].parent if len(self.files) > 1 else self.files[0])
            )
        return sizes

    @property
    def _path(self) -> Path:
        return self.files[0].parent if self.settings.documents == "files" else self.files[0]

    @cached_property
    def _splits(self) -> Mapping[int, Split]:
        """The split of each held-out document: evenly spaced ones, or those that the seed draws."""
        sizes, seed = self._document_sizes, self.settings.seed
        order = np.arange(len(sizes)) if seed is None else np.random.default_rng(seed).permutation(len(sizes))
        remaining, splits = order.tolist(), dict[int, Split]()
        for split in ("dev", "test"):
            limit = self.settings.held_out.get(split)
            if limit is None:
                continue
            remaining_sizes = [sizes[number] for number in remaining]
            taken = (
                _first_within(remaining_sizes, limit) if seed is not None else whole_documents(remaining_sizes, limit)
            )
            if not any(taken) or all(taken):
                what = f"no document has at most {limit:,} segments" if not any(taken) else "no document is left"
                hint = f"Change plain.held_out.{split}: complete documents are held out of {len(sizes):,}."
                raise UserError(f"{what} for the {split} split", where=str(self._path), hint=hint)
            splits |= dict.fromkeys(
                (number for number, is_taken in zip(remaining, taken, strict=True) if is_taken), split
            )
            remaining = [number for number in remaining if number not in splits]
        return splits

    def _texts(self) -> Iterator[Iterator[str]]:
        """The segments of each document."""
        if self.settings.documents == "files":
            lines_of_each: Iterator[Iterator[str]] = (reading.lines(path) for path in self.files)
        else:
            rows = ((line,) for line in reading.lines(self.files[0]))
            lines_of_each = ((cells[0] for cells in document) for document in _split_at_blank_lines(rows, self.files))
        for lines in lines_of_each:
            non_blank = (line for line in lines if line.strip())
            yield _sentences(non_blank) if self.settings.split_sentences else non_blank


def _sentences(lines: Iterator[str]) -> Iterator[str]:
    """The sentences of running text, by their marks."""
    for line in lines:
        limits = sentence_limits(line)
        for start, end in pairwise(limits):
            if sentence := line[start:end].strip():
                yield sentence


def _first_within(sizes: Sequence[int], limit: int) -> list[bool]:
    """Whether to take each item: it is taken if it still fits within the limit."""
    taken, total = list[bool](), 0
    for size in sizes:
        taken.append(total + size <= limit)
        total += size * taken[-1]
    return taken


def document_files(folder: Path, name: str) -> tuple[Path, ...]:
    """The .txt files of the subfolder `name`, or of the folder itself if there is no such subfolder.

    Raises UserError if there are none.
    """
    directory = folder / name if (folder / name).is_dir() else folder
    files = tuple(
        sorted(path for ending in (".txt", ".txt.gz") for path in directory.rglob(f"*{ending}") if path.is_file())
    )
    if not files:
        raise UserError("no document: files *.txt[.gz] are expected", where=str(directory))
    return files
