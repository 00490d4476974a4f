"""A resolved corpus source: its identity, its splits, and a stream of its segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress, groupby
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.settings_base import Split
from subgraft.data.sources.paths import SPLITS
from subgraft.data.text import fields, reading
from subgraft.data.text.fields import Field, Place, Sides, whole_documents


@dataclass(frozen=True)
class ResolvedSource(ABC):
    """A resolved corpus source. A segment has a cell for each field, then its place if it belongs to a document.

    Cells are text: the bounds of a span separated by a tab, and the number of a tensor's row.
    """

    fields: tuple[Field, ...]
    limit: Mapping[Split, int]
    _sizes: dict[Split, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    generated = False
    # Whether segments have a place in a document.
    documented = False
    # Whether segments are labelled examples, which are duplicates only if all their cells are equal.
    labelled = False
    # Whether it is stored on this machine, so that it can be read before any step runs.
    on_disk = False

    @property
    def monolingual(self) -> bool:
        """Whether it has one text."""
        return len(fields.texts(self.fields)) == 1

    @property
    def parallel(self) -> bool:
        """Whether it has several texts, whose segments belong together."""
        return not self.monolingual

    @property
    @abstractmethod
    def splits(self) -> tuple[Split, ...]:
        """The existing splits, in the order train, dev, test."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """All inputs of the segments, for fingerprints: as JSON, without paths and addresses."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """The number of segments that `read` yields. Downloads remote files, and reads files to their end.

        Raises UserError for a side that is empty, not UTF-8 or of a different length than the other one.
        """

    @abstractmethod
    def read(self, split: Split) -> Iterator[Sides]:
        """The segments of a split; raises as `size` does, before the first one."""

    def read_parts(self, split: Split) -> Iterator[tuple[int, Sides]]:
        """The segments of `read`, each with the number of the part from which it comes."""
        return ((0, sides) for sides in self.read(split))

    def tensor(self, split: Split, name: str) -> Path:
        """The safetensors file with the rows of a tensor field."""
        raise NotImplementedError

    def remarks(self, split: Split) -> Mapping[str, int]:
        """Counts of events while reading the split, for the corpus's record."""
        del split
        return {}


class SeveralSources(ResolvedSource):
    """The segments of several sources, one after the other; a source without a split adds nothing to it."""

    @property
    @abstractmethod
    def _sources(self) -> Collection[ResolvedSource]:
        """The sources, in order."""

    @property
    def generated(self) -> bool:  # type: ignore[override]
        return any(source.generated for source in self._sources)

    @property
    def on_disk(self) -> bool:  # type: ignore[override]
        return all(source.on_disk for source in self._sources)

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self._with(split))

    def size(self, split: Split) -> int:
        return sum(source.size(split) for source in self._with(split))

    def read(self, split: Split) -> Iterator[Sides]:
        for source in self._with(split):
            yield from source.read(split)

    def remarks(self, split: Split) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for source in self._with(split):
            counts.update(source.remarks(split))
        return counts

    def _with(self, split: Split) -> list[ResolvedSource]:
        return [source for source in self._sources if split in source.splits]


@dataclass(frozen=True)
class FilesSource(ResolvedSource):
    """A source of files; by default one file per field, parallel line by line.

    A limit selects evenly spaced segments, because neighbours in a file often belong to one document. If the source has
    documents or queries, complete ones are selected.
    """

    _documents_taken: dict[Split, list[bool]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @abstractmethod
    def _origin(self) -> dict[str, object]: ...

    def identity(self) -> dict[str, object]:
        return {**self._origin(), "limit": {split: self.limit[split] for split in SPLITS if split in self.limit}}

    @abstractmethod
    def paths(self, split: Split) -> tuple[Path, ...]:
        """The files of a split, one for each cell or one for all; remote files are downloaded first."""

    def size(self, split: Split) -> int:
        if self._takes_documents(split):
            return self._size_of_documents(split)
        return min(self._full_size(split), self.limit.get(split, self._full_size(split)))

    def read(self, split: Split) -> Iterator[Sides]:
        size = self.size(split)
        if self._takes_documents(split):
            for segments, taken in zip(self._documents(split), self._documents_taken[split], strict=True):
                if taken:
                    yield from segments
            return
        full_size = self._full_size(split)
        for index, sides in enumerate(self._segments(split)):
            if (index + 1) * size // full_size > index * size // full_size:
                yield sides

    def _segments(self, split: Split) -> Iterator[Sides]:
        """All segments of a split; `_count_split` returns their number."""
        return zip(*map(reading.lines, self.paths(split)), strict=True)

    def _full_size(self, split: Split) -> int:
        """The number of segments before any limit."""
        if split not in self._sizes:
            self._sizes[split] = self._count_split(split)
        return self._sizes[split]

    def _count_segments(self, split: Split) -> int:
        """Counts segments by reading them. Raises UserError if there are none."""
        count = sum(1 for _ in self._segments(split))
        if count == 0:
            files = " and ".join(map(str, self.paths(split)))
            raise UserError(f"an empty corpus (no segment in {files})", where=f"{split} split")
        return count

    def _count_split(self, split: Split) -> int:
        paths = self.paths(split)
        counts = [reading.count(path) for path in paths]
        lengths = " and ".join(f"{path}: {count:,}" for path, count in zip(paths, counts, strict=True))
        if min(counts) == 0:
            raise UserError(f"an empty corpus (lines of {lengths})", where=f"{split} split")
        if len(set(counts)) > 1:
            hint = "Parallel files must agree line by line."
            raise UserError(f"unequal numbers of lines ({lengths})", where=f"{split} split", hint=hint)
        return counts[0]

    def _takes_documents(self, split: Split) -> bool:
        return (self.documented or self._query is not None) and split in self.limit

    @property
    def _query(self) -> int | None:
        """The index of the cell with the query of a ranked candidate."""
        return next((index for index, field in enumerate(self.fields) if field.name == fields.QUERY), None)

    def _size_of_documents(self, split: Split) -> int:
        if split not in self._documents_taken:
            sizes = [sum(1 for _ in segments) for segments in self._documents(split)]
            taken = self._documents_taken[split] = whole_documents(sizes, self.limit[split])
            self._sizes[split] = sum(compress(sizes, taken))
            if not self._sizes[split]:
                unit = "document" if self.documented else "query"
                what = f"no {unit} fits into the limit of {self.limit[split]:,} segments"
                raise UserError(what, where=f"{split} split")
        return self._sizes[split]

    def _documents(self, split: Split) -> Iterator[Iterator[Sides]]:
        query = self._query
        return (
            group
            for _, group in groupby(
                self._segments(split),
                lambda cells: Place.parse(cells[-1]).document if query is None else cells[query],
            )
        )


@dataclass(frozen=True)
class SplitFilesSource(FilesSource):
    """Files of their own for every split; by default local files, one for each cell."""

    files: Mapping[Split, Any]

    on_disk = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.files)

    def paths(self, split: Split) -> tuple[Path, ...]:
        files: tuple[Path, ...] = self.files[split]
        return files

    @property
    def _digests(self) -> dict[Split, list[str]]:
        return {split: [file_digest(path) for path in self.paths(split)] for split in self.splits}


@dataclass(frozen=True)
class PairFilesSource(SplitFilesSource):
    """One file of pairs per split. There are always two sides, in one language or two."""

    files: Mapping[Split, Path]

    def paths(self, split: Split) -> tuple[Path, ...]:
        return (self.files[split],)

    @property
    def _file_digests(self) -> dict[Split, str]:
        return {split: file_digest(self.files[split]) for split in self.splits}
