"""Translations of a book in verses: aligned by verse id, with chapters or books as documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind, by_language
from subgraft.data.sources.paths import SPLITS, existing, find
from subgraft.data.sources.resolved_corpus import FilesSource, ResolvedSource
from subgraft.data.sources.texts import not_parallel
from subgraft.data.text import reading
from subgraft.data.text.fields import Place, Sides, select_fields, text_fields

_ID = re.compile(r"\w+\.(\w+)\.(\d{1,9})\.(\d{1,9})")
# Several verses that were translated as one: b.MAT.1.3-b.MAT.1.4, or b.MAT.1.3-4.
_RANGE = re.compile(rf"{_ID.pattern}-(?:\w+\.\w+\.\d+\.)?\d+")
VERSE_LINE = re.compile(rf"{_ID.pattern}(?:-\S+)?\t")


class VerseFiles(Settings):
    """Translations of one book, in lines of `verse id<TAB>text`, with ids such as b.MAT.1.1: book, chapter, verse.

    folder: the folder of the translations.
    translations: the name of each language's file, {name}.tsv[.gz].
    aligned: whether only verses that all translations have are read, in parallel; if not, each translation is a
    separate text.
    documents: the verses that form a document. dev, test: books of the split, such as MAT; all others are for training.
    """

    folder: str
    translations: Annotated[dict[str, str], Field(min_length=1)]
    aligned: bool = True
    documents: Literal["chapter", "book"] = "chapter"
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _held_out_once(self) -> VerseFiles:
        if overlap := sorted({*self.dev} & {*self.test}):
            raise ValueError(f"{overlap[0]} is held out twice, for dev and for test")
        return self


class Verses(Settings):
    """verses: translations of one book."""

    verses: VerseFiles | None = None


class Verse(NamedTuple):
    """The id of a verse."""

    book: str
    chapter: int
    number: int


def verses(path: Path, counts: Counter[str]) -> Iterator[tuple[Verse, str]]:
    """The verses of a translation in order; ranges and verses without text are counted and skipped.

    Raises UserError with file and line for a malformed line, or a verse that is repeated or out of order.
    """
    last_numbers: dict[tuple[str, int], int] = {}
    book, chapter = "", 0
    for number, line in enumerate(reading.lines(path), 1):
        identifier, tab, text = line.partition("\t")
        match = _ID.fullmatch(identifier)
        if not tab or (match is None and not _RANGE.fullmatch(identifier)):
            hint = "Lines are expected as in: b.MAT.1.1<TAB>text."
            raise UserError(f"no verse id and text: '{line[:40]}'", where=f"{path}:{number}", hint=hint)
        if match is None:
            counts["verse_ranges"] += 1
            continue
        verse = Verse(match[1], int(match[2]), int(match[3]))
        key = (verse.book, verse.chapter)
        if (key in last_numbers and key != (book, chapter)) or last_numbers.get(key, -1) >= verse.number:
            raise UserError(f"{identifier} comes twice, or too late", where=f"{path}:{number}")
        book, chapter = key
        last_numbers[key] = verse.number
        if text.strip():
            yield verse, text
        else:
            counts["empty_verses"] += 1


class _Index(NamedTuple):
    """The result of a first pass over the files.

    Attributes:
        common: Verses that all translations have.
        starts: The position before each chapter's first verse in its book, for documents that are books.
        counts: Counts of skipped lines.
    """

    common: frozenset[Verse]
    starts: Mapping[tuple[str, int], int]
    counts: Counter[str]


@dataclass(frozen=True)
class VersesSource(FilesSource):
    """The verses that all translations have, split by book. Other verses are counted as unaligned."""

    files: tuple[Path, ...]
    settings: VerseFiles

    on_disk = True
    documented = True

    @property
    def splits(self) -> tuple[Split, ...]:
        held_out = {"dev": self.settings.dev, "test": self.settings.test}
        return tuple(split for split in SPLITS if split == "train" or held_out[split])

    def paths(self, split: Split) -> tuple[Path, ...]:
        del split
        return self.files

    def remarks(self, split: Split) -> Mapping[str, int]:
        # The counts are of the files' lines, which all splits share, so they are reported only once.
        return self._index.counts if split == "train" else {}

    def _origin(self) -> dict[str, object]:
        form = self.settings.model_dump(mode="json", include={"documents", "dev", "test"})
        return {"verses": form, "files": [file_digest(path) for path in self.files]}

    def _count_split(self, split: Split) -> int:
        return self._count_segments(split)

    def _segments(self, split: Split) -> Iterator[Sides]:
        index = self._index
        for row in zip(*(self._verses_in_split(split, path) for path in self.files), strict=True):
            verse = row[0][0]
            if any(other != verse for other, _ in row):
                sizes = " and ".join(f"{path.name}: {other}" for path, (other, _) in zip(self.files, row, strict=True))
                raise UserError(f"the translations have verses in another order ({sizes})", where=str(self.files[0]))
            yield (*(text for _, text in row), str(self._place(verse, index)))

    def _verses_in_split(self, split: Split, path: Path) -> Iterator[tuple[Verse, str]]:
        common = self._index.common
        return (verse for verse in verses(path, Counter()) if verse[0] in common and self._split(verse[0]) == split)

    def _split(self, verse: Verse) -> Split:
        if verse.book in self.settings.dev:
            return "dev"
        return "test" if verse.book in self.settings.test else "train"

    def _place(self, verse: Verse, index: _Index) -> Place:
        if self.settings.documents == "chapter":
            return Place(f"{verse.book}.{verse.chapter}", verse.number)
        return Place(verse.book, index.starts[verse.book, verse.chapter] + verse.number)

    @cached_property
    def _index(self) -> _Index:
        counts: Counter[str] = Counter()
        ids = [frozenset(verse for verse, _ in verses(path, counts)) for path in self.files]
        common, all_verses = frozenset.intersection(*ids), frozenset[Verse]().union(*ids)
        counts["unaligned"] = len(all_verses) - len(common)
        books = {verse.book for verse in common}
        for book in (*self.settings.dev, *self.settings.test):
            if book not in books:
                hint = f"There is: {', '.join(sorted(books)) or 'none'}."
                raise UserError(f"no verse of the book '{book}' in all translations", where="verses", hint=hint)
        return _Index(common, _starts(all_verses), +counts)


def _starts(verses: frozenset[Verse]) -> dict[tuple[str, int], int]:
    """The number of verses of the same book before each chapter, as far as it follows from these verses."""
    longest: dict[tuple[str, int], int] = {}
    for verse in verses:
        key = (verse.book, verse.chapter)
        longest[key] = max(longest.get(key, 0), verse.number)
    starts: dict[tuple[str, int], int] = {}
    previous, end = ("", 0), 0
    for book, chapter in sorted(longest):
        if book != previous[0]:
            end = 0
        elif chapter != previous[1] + 1:
            end += 1  # a whole chapter is missing: the next verse does not follow the previous one
        starts[book, chapter] = end
        previous, end = (book, chapter), end + longest[book, chapter]
    return starts


def _resolve(request: Request) -> ResolvedSource:
    settings, folder = request.settings, find(request.settings.folder, request.base)
    fields = select_fields(request.languages, text_fields(settings.translations), "verses.translations")
    paths = {code: existing(folder / f"{settings.translations[code]}.tsv") for code in fields}
    if settings.aligned:
        return VersesSource(tuple(fields.values()), request.limit, tuple(paths.values()), settings)
    return not_parallel(
        {field.name: VersesSource((field,), request.limit, (paths[code],), settings) for code, field in fields.items()}
    )


VERSES = SourceKind(
    name="verses",
    fields=Verses,
    resolve=_resolve,
    names_languages=True,
    by_language=lambda source: by_language(source, "verses", "translations", source.verses.translations),
)
