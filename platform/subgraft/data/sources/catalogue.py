"""List available corpora with their licences, check one, and build one into a folder."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.base.progress import ProgressCallback
from subgraft.base.unfinished import unfinished_folder
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import Split
from subgraft.data.sources.corpus_builder import build, require_empty
from subgraft.data.sources.folders import Folder, recognise_folder
from subgraft.data.sources.generated.corpus import GENERATED_COUNTS, GENERATED_DOMAINS, GENERATED_LANGUAGES
from subgraft.data.sources.kind import Pairing
from subgraft.data.sources.labelled import LabelledSource
from subgraft.data.sources.paths import SPLITS, data_folder
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.sources.resolved_corpus import FilesSource, ResolvedSource
from subgraft.data.sources.texts import TextsSource
from subgraft.data.text import reading
from subgraft.data.text.cleaning import BYTE_ORDER_MARK, count_invisible
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import Kind, Place, Sides

MANIFEST = "MANIFEST.tsv"


@dataclass(frozen=True)
class Listing:
    """An available corpus.

    Attributes:
        name: The built-in domain, or the folder.
        segments: Lines per split; text without splits counts as train, all languages together.
        fields: Names of fields that are not texts.
        documents: Whether segments belong to documents.
    """

    name: str
    kind: str
    languages: tuple[str, ...]
    segments: Mapping[Split, int]
    fields: tuple[str, ...] = ()
    documents: bool = False

    @property
    def holds(self) -> str:
        """Its contents: parallel, monolingual or labelled text, with or without documents."""
        several = len(self.languages) > 1
        if "label" in self.fields:
            what = "labelled"
        elif self.kind == "plain" or not several:
            what = "monolingual"
        else:
            what = "parallel" if len(self.languages) == 2 else "many parallel"
        return f"{what}, documents" if self.documents else what


@dataclass(frozen=True)
class FieldStatistics:
    """One field of a split that was read to its end. Words are separated by white space.

    Attributes:
        sha256: The digest of the file, if it is a file on disk.
        declared: Whether a manifest above the file has the same digest.
        classes: The count of each class, if it has classes: of labels, tags or types.
        documents: The number of documents, if segments belong to documents.
        unseen: Counts of invisible characters and of those that change what is displayed, by kind.
        remarks: Counts of omitted examples and other events in reading the split, by reason; at its first field.
    """

    split: Split
    field: str
    kind: Kind
    language: str | None
    segments: int
    words: int
    characters: int
    sha256: str | None = None
    declared: bool = False
    classes: Mapping[str, int] | None = None
    documents: int | None = None
    unseen: Mapping[str, int] = dataclass_field(default_factory=dict)
    remarks: Mapping[str, int] = dataclass_field(default_factory=dict)

    @property
    def mean_characters(self) -> float:
        return self.characters / self.segments if self.segments else 0.0


def available(data: Path | None) -> list[Listing]:
    """The built-in domains (at their default sizes), then the folders of corpora under `data`, by name."""
    built_in = [Listing(domain, "generated", GENERATED_LANGUAGES, GENERATED_COUNTS) for domain in GENERATED_DOMAINS]
    if data is None:
        return built_in
    if not data.is_dir():
        raise UserError("SUBGRAFT_DATA names a folder that does not exist", where=str(data))
    declared = _manifest(data, "file", "lines")
    folders = sorted(Path(folder) for folder, _, _ in os.walk(data))
    corpora = ((folder, recognise_folder(folder)) for folder in folders)
    return built_in + [_listing(folder, contents, data, declared) for folder, contents in corpora if contents]


def check(
    source: CorpusSource, languages: Languages | None, base: Path, pairing: Pairing | None = None
) -> list[FieldStatistics]:
    """Statistics of a source, from reading every split to its end, uncleaned.

    Files under a folder with a MANIFEST.tsv (columns `file` and `sha256`) are compared with it. Raises UserError for a
    source that cannot be used: files that are missing, unequal, empty, not UTF-8 or of another digest.
    """
    resolved = resolve(source, languages, base, pairing=pairing)
    return [
        field
        for split in resolved.splits
        for part in _parts(resolved)
        if split in part.splits
        for field in _field_statistics(part, split)
    ]


def _parts(resolved: ResolvedSource) -> Collection[ResolvedSource]:
    return resolved.parts.values() if isinstance(resolved, TextsSource) else (resolved,)


def _field_statistics(part: ResolvedSource, split: Split) -> Iterator[FieldStatistics]:
    digests = _verify_digests(part, split)
    byte_order_marks = _byte_order_marks(part, split)
    part.size(split)
    totals = _Totals(part)
    for cells in part.read(split):
        totals.add(cells)
    for at, (field, digest) in enumerate(zip(part.fields, digests, strict=True)):
        yield FieldStatistics(
            split,
            field.name,
            field.kind,
            field.language,
            totals.segments,
            totals.words[at],
            totals.characters[at],
            *digest,
            classes=totals.classes.get(at),
            documents=totals.documents if part.documented else None,
            unseen=byte_order_marks[at] + totals.unseen[at],
            remarks={} if at else dict(part.remarks(split)),
        )


class _Totals:
    """Counts over a stream of segments."""

    def __init__(self, part: ResolvedSource) -> None:
        self.segments, self.documents = 0, 0
        self.words, self.characters = [0] * len(part.fields), [0] * len(part.fields)
        self.unseen = [Counter[str]() for _ in part.fields]
        self._fields = part.fields
        self.classes = {at: Counter[str]() for at, field in enumerate(part.fields) if field.has_classes}
        self._texts = [at for at, field in enumerate(part.fields) if field.kind == "text"]
        self._documented, self._document = part.documented, ""

    def add(self, cells: Sides) -> None:
        self.segments += 1
        for at in self._texts:
            self.words[at] += len(cells[at].split())
            self.characters[at] += len(cells[at])
            self.unseen[at].update(count_invisible(cells[at]))
        for at, counts in self.classes.items():
            counts.update(self._fields[at].classes(cells[at]))
        if self._documented and (document := Place.parse(cells[-1]).document) != self._document:
            self._document, self.documents = document, self.documents + 1


def get(
    source: CorpusSource,
    languages: Languages | None,
    cleaning: Cleaning,
    out: Path,
    *,
    base: Path = Path(),
    pairing: Pairing | None = None,
    progress: ProgressCallback | None = None,
) -> Corpus:
    """Build a corpus into `out` (absent or empty) atomically, creating missing parents.

    Raises UserError like `check`.
    """
    require_empty(out)
    for part in _parts(resolve(source, languages, base, pairing=pairing)):
        for split in part.splits:
            _verify_digests(part, split)
    nearest = next(parent for parent in out.absolute().parents if parent.exists())
    with unfinished_folder(nearest) as folder:
        partial = folder / out.name
        build(source, languages, cleaning, partial, base=base, pairing=pairing, progress=progress)
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(out)
    return Corpus.open(out)


def _listing(folder: Path, contents: Folder, data: Path, declared: Mapping[str, str]) -> Listing:
    def lines(path: Path) -> int:
        count = declared.get(path.relative_to(data).as_posix(), "")
        return int(count) if count.isdecimal() else sum(1 for _ in reading.json_lines(path))

    segments = {split: sum(map(lines, contents.files[split])) for split in SPLITS if split in contents.files}
    name = folder.relative_to(data).as_posix()
    return Listing(name, contents.source.kind.name, contents.languages, segments, contents.fields, contents.documents)


def _manifest(folder: Path, key: str, column: str) -> dict[str, str]:
    """A column of a folder's manifest, by another column; empty if there is no manifest."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    rows = csv.DictReader(reading.lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row[key]: row[column] for row in rows if row.get(key) and row.get(column)}


def _byte_order_marks(part: ResolvedSource, split: Split) -> list[Counter[str]]:
    """Count byte order marks, which reading drops, for each field; those of a shared file count for the first field."""
    counters = [Counter[str]() for _ in part.fields]
    if part.on_disk and isinstance(part, FilesSource):
        texts = [path for path in part.paths(split) if path.suffix != ".safetensors"]
        for counts, path in zip(counters, texts, strict=False):
            if reading.has_byte_order_mark(path):
                counts[BYTE_ORDER_MARK] += 1
    return counters


def _verify_digests(part: ResolvedSource, split: Split) -> Iterable[tuple[str | None, bool]]:
    """The digest of each field's file, and whether a manifest has it. Raises UserError if the manifest has another."""
    sides = len(part.fields)
    if not (part.on_disk and isinstance(part, FilesSource)):
        return [(None, False)] * sides
    digests = [_digest(path) for path in part.paths(split)]
    if isinstance(part, LabelledSource) and len(digests) > 1:
        # There are many files, one for each class or text, and each contains all fields.
        return [(None, all(declared for _, declared in digests))] * sides
    # All fields may come from one file, with tensors next to it. Files of documents follow those of the fields.
    return digests[:sides] if len(digests) >= sides else digests[:1] * sides


def _digest(path: Path) -> tuple[str, bool]:
    digest = file_digest(path)
    manifest_folder = next((folder for folder in path.resolve().parents if (folder / MANIFEST).is_file()), None)
    if manifest_folder is None:
        return digest, False
    name = path.resolve().relative_to(manifest_folder).as_posix()
    declared = _manifest(manifest_folder, "file", "sha256").get(name)
    if declared is not None and declared != digest:
        hint = f"{manifest_folder / MANIFEST} says {declared}. Fetch the file again."
        raise UserError(f"the file has SHA-256 {digest}", where=str(path), hint=hint)
    return digest, declared is not None


UNKNOWN = "unknown"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def licences(identity: Mapping[str, object], folder: Path | None = None) -> tuple[str, ...]:
    """The licences of a corpus, by the SHA-256 of its files; "unknown" for files that are not in the manifest.

    Args:
        identity: The corpus's identity, which contains the digests.
        folder: A folder with a MANIFEST.tsv (columns `sha256` and `licence`); default: SUBGRAFT_DATA.
    """
    parts = identity.get("together")
    if isinstance(parts, list):
        return tuple(dict.fromkeys(licence for part in parts for licence in licences(part, folder)))
    if "generated" in identity:
        return ("generated by Subgraft from its own word lists",)
    folder = folder or data_folder()
    declared = {} if folder is None else _manifest(folder, "sha256", "licence")
    by_file = dict.fromkeys(declared.get(digest, UNKNOWN) for digest in _digests(identity))
    return tuple(by_file) or (UNKNOWN,)


def _digests(value: object) -> Iterator[str]:
    """Every SHA-256 in nested mappings and lists, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _digests(inner)
    elif isinstance(value, str) and _DIGEST.fullmatch(value):
        yield value
