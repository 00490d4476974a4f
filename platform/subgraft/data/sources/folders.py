"""Recognise the corpus of a folder by the names and first lines of its files, as settings of a source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from subgraft.base import json_io
from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import UNDETERMINED
from subgraft.config.settings_base import Split
from subgraft.data.sources.paths import SPLITS, plain_or_zipped, split_file
from subgraft.data.sources.plain import PlainTexts
from subgraft.data.sources.records import RecordField, RecordFiles
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.sources.verses import VERSE_LINE, VerseFiles
from subgraft.data.text import reading
from subgraft.data.text.corpus import RECORD, Corpus

T = TypeVar("T")
_CODE = r"[a-z]{2,3}(?:[_-][A-Za-z]{2,4})?"
# {split}.{language code}, plain or gzipped; codes as in "en", "src" or "pt_BR".
_SPLIT_FILE = re.compile(rf"(train|dev|test)\.({_CODE})(?:\.gz)?")
_TAGGED = re.compile(rf"({_CODE})\t")
# The code of an unknown language (ISO 639-2).


@dataclass(frozen=True)
class Folder:
    """A folder with a corpus; `files` has one file per field or language, or one for all fields, by split."""

    source: CorpusSource
    languages: tuple[str, ...]
    files: Mapping[Split, tuple[Path, ...]]
    fields: tuple[str, ...] = field(default=())
    documents: bool = False


def recognise_folder(folder: Path) -> Folder | None:
    """The corpus of a folder, if its files match a kind of source."""
    for recognise in (_built, _split_files, _records, _verses, _plain):
        if (contents := recognise(folder)) is not None:
            return contents
    return None


def restrict_to(source: CorpusSource, languages: Sequence[str]) -> CorpusSource:
    """A recognised source with only these texts; several translations are aligned. Raises UserError for others."""
    if source.verses is not None:
        known = _select(source.verses.translations, languages)
        return CorpusSource(verses=source.verses.model_copy(update={"translations": known, "aligned": True}))
    if source.plain is not None:
        return CorpusSource(plain=source.plain.model_copy(update={"languages": _select(source.plain.names, languages)}))
    if source.records is not None:
        of_text = {name: field for name, field in source.records.fields.items() if field.kind == "text"}
        others = {name: field for name, field in source.records.fields.items() if field.kind != "text"}
        fields = _select(of_text, languages) | others
        return CorpusSource(records=source.records.model_copy(update={"fields": fields}))
    return CorpusSource(folder=source.folder, languages=tuple(languages))


def _select(known: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    for name in names:
        if name not in known:
            raise ArgumentError(f"no text '{name}'", where="languages", hint=f"There is: {', '.join(known)}.")
    return {name: known[name] for name in names}


def _built(folder: Path) -> Folder | None:
    if not (folder / RECORD).is_file():
        return None
    try:
        corpus = Corpus.open(folder)
    except UserError:
        return None
    texts = [each.name for each in corpus.fields if each.kind == "text"]
    files = {cast(Split, split): tuple(corpus.file(split, name) for name in texts[:1]) for split in corpus.splits}
    others = tuple(each.name for each in corpus.fields if each.kind != "text")
    source = CorpusSource(folder=str(folder))
    return Folder(source, tuple(dict.fromkeys(corpus.languages)), files, others, corpus.has_documents())


def _split_files(folder: Path) -> Folder | None:
    files: dict[Split, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if named := _SPLIT_FILE.fullmatch(path.name):
            files.setdefault(cast(Split, named[1]), {})[named[2]] = path
    codes = tuple(dict.fromkeys(code for sides in files.values() for code in sides if code != "tsv"))
    if not codes:
        return None
    source = CorpusSource(folder=str(folder), languages=codes if len(codes) > 2 else None)
    # The files are parallel, so one of them is enough to count segments.
    return Folder(source, codes, {split: (next(iter(files[split].values())),) for split in SPLITS if split in files})


def _records(folder: Path) -> Folder | None:
    files = {split: path for split in SPLITS if (path := split_file(folder, split, "jsonl")) is not None}
    first = _first_record(files.values())
    texts = {name: UNDETERMINED if name == "text" else name for name in first if _is_text(name, first[name])}
    labelled = "label" in first and "text" in texts
    documents = "document" in first and all(isinstance(first[name], list) for name in texts)
    if not texts or not (labelled or documents):
        return None
    fields = {name: RecordField(language=language) for name, language in texts.items()}
    others = {"label": RecordField(kind="label")} if labelled else {}
    settings = RecordFiles(folder=str(folder), fields=fields | others, document="document" if documents else None)
    splits = {split: (path,) for split, path in files.items()}
    return Folder(CorpusSource(records=settings), tuple(texts.values()), splits, tuple(others), documents)


def _first_record(paths: Iterable[Path]) -> dict[str, Any]:
    line = next((line for path in paths for line in _first_lines(path, 1)), "{}")
    try:
        return json_io.parse_object(line)
    except ValueError:
        return {}


def _is_text(name: str, value: object) -> bool:
    """Whether a field is a text, or a list of segments named by a language code; no other list is recognised."""
    if isinstance(value, list):
        return re.fullmatch(_CODE, name) is not None and all(isinstance(item, str) for item in value)
    return name == "text" and isinstance(value, str)


def _verses(folder: Path) -> Folder | None:
    files = _by_stem(folder, "tsv")
    first = [line for path in files.values() for line in _first_lines(path, 1)]
    if not first or not all(map(VERSE_LINE.match, first)):
        return None
    settings = VerseFiles(folder=str(folder), translations={name: name for name in files}, aligned=False)
    return Folder(CorpusSource(verses=settings), tuple(files), {"train": tuple(files.values())}, documents=True)


def _plain(folder: Path) -> Folder | None:
    files = _by_stem(folder, "txt")
    first = [line for path in files.values() for line in _first_lines(path, 10)]
    if not first:
        return None
    if len(files) == 1 and all(map(_TAGGED.match, first)):
        (path,) = files.values()
        tags = tuple(dict.fromkeys(line.partition("\t")[0] for line in reading.lines(path)))
        return Folder(CorpusSource(plain=PlainTexts(tagged=str(path), languages=tags)), tags, {"train": (path,)})
    source = CorpusSource(plain=PlainTexts(folder=str(folder), languages=tuple(files)))
    return Folder(source, tuple(files), {"train": tuple(files.values())})


def _by_stem(folder: Path, ending: str) -> dict[str, Path]:
    """Files {stem}.{ending}, plain or zipped."""
    stems = {path.name.partition(f".{ending}")[0] for path in folder.glob(f"*.{ending}*") if path.is_file()}
    paths = {stem: plain_or_zipped(folder / f"{stem}.{ending}") for stem in sorted(stems)}
    return {stem: path for stem, path in paths.items() if path is not None}


def _first_lines(path: Path, count: int) -> list[str]:
    """The first `count` lines; none if the file is unreadable, which is reported when the corpus is used."""
    try:
        return list(islice(reading.json_lines(path), count))
    except UserError:
        return []
