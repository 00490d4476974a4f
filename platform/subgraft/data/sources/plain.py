"""Text by language that is not split yet: a file per language, tagged lines, or documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.settings_base import Count, Seed, Settings, Split
from subgraft.data.sources.files import split_at_blank_lines
from subgraft.data.sources.kind import Request, SourceKind, by_language
from subgraft.data.sources.paths import SPLITS, existing, find, find_file
from subgraft.data.sources.resolved_corpus import FilesSource, ResolvedSource
from subgraft.data.sources.texts import not_parallel
from subgraft.data.text import reading
from subgraft.data.text.fields import Place, Sides, select_fields, text_fields, whole_documents
from subgraft.data.text.sentences import sentence_limits


class PlainTexts(Settings):
    """Text by language that is not split yet: {name}.txt[.gz] in a folder, or one file of `name<TAB>segment` lines.

    folder: a folder with a file for each language.
    tagged: one file of all languages, in place of folder.
    languages: the name of each language in the folder or the file, or a list of languages.
    held_out: segments of each language held out; with documents, complete ones of at most so many segments.
    seed: draws the held-out segments; without it, they are evenly spaced.
    documents: where documents end: at blank lines, or each .txt[.gz] file of the folder is a document (of its subfolder
    {name}, if there is one).
    split_sentences: whether lines of documents are divided into sentences at punctuation; if not, each line is one
    sentence.
    """

    folder: str | None = None
    tagged: str | None = None
    languages: Annotated[dict[str, str] | tuple[str, ...], Field(min_length=1)]
    held_out: dict[Literal["dev", "test"], Count] = Field(default_factory=dict)
    seed: Seed | None = None
    documents: Literal["blank-lines", "files"] | None = None
    split_sentences: bool = False

    @property
    def names(self) -> dict[str, str]:
        """The name of each language in the folder or the file."""
        return self.languages if isinstance(self.languages, dict) else {code: code for code in self.languages}

    @model_validator(mode="after")
    def _one_place(self) -> PlainTexts:
        if (self.folder is None) == (self.tagged is None):
            raise ValueError("give exactly one of folder, tagged")
        if self.documents is not None and self.tagged is not None:
            raise ValueError("documents applies to the files of a folder, not to tagged lines")
        if self.split_sentences and self.documents is None:
            raise ValueError("split_sentences needs documents: write `documents: blank-lines` or `files`")
        return self


class Plain(Settings):
    """plain: text by language, split here."""

    plain: PlainTexts | None = None


@dataclass(frozen=True)
class UnsplitSource(FilesSource):
    """Files of one language without splits: held-out text becomes dev and test, the rest train."""

    files: tuple[Path, ...]
    settings: PlainTexts

    on_disk = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split == "train" or split in self.settings.held_out)

    def paths(self, split: Split) -> tuple[Path, ...]:
        del split
        return self.files

    @property
    def _digests(self) -> list[str]:
        return [file_digest(path) for path in self.files]


@dataclass(frozen=True)
class PlainSource(UnsplitSource):
    """The text of one language in one file; `name` is its tag in a file of `name<TAB>segment` lines."""

    name: str

    @property
    def _file(self) -> Path:
        return self.files[0]

    def _origin(self) -> dict[str, object]:
        form: dict[str, object] = {"held_out": dict(sorted(self.settings.held_out.items())), "seed": self.settings.seed}
        form |= {"name": self.name} if self.settings.tagged else {}
        return {"plain": form, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        splits = self._splits
        return ((line,) for index, line in enumerate(self._lines()) if splits.get(index, "train") == split)

    def _count_split(self, split: Split) -> int:
        held_out = self.settings.held_out
        return self._count - sum(held_out.values()) if split == "train" else held_out[split]

    @cached_property
    def _count(self) -> int:
        count, held_out = sum(1 for _ in self._lines()), sum(self.settings.held_out.values())
        if count == 0:
            what = f"no line of '{self.name}'" if self.settings.tagged else "an empty corpus"
            raise UserError(what, where=str(self._file))
        if held_out >= count:
            what = f"{held_out:,} segments are to be held out of {count:,} of '{self.name}'"
            raise UserError(what, where=str(self._file), hint="Lower plain.held_out.")
        return count

    @cached_property
    def _splits(self) -> dict[int, Split]:
        """The split of each held-out line."""
        count, dev = self._count, self.settings.held_out.get("dev", 0)
        held_out_count = dev + self.settings.held_out.get("test", 0)
        if self.settings.seed is not None:
            import numpy as np

            sampled = np.random.default_rng(self.settings.seed).choice(count, held_out_count, replace=False)
            return {index: "dev" if rank < dev else "test" for rank, index in enumerate(sampled.tolist())}
        # The held-out lines are evenly spaced in the text, and the dev lines are evenly spaced among them.
        return {
            (2 * rank + 1) * count // (2 * held_out_count): "dev"
            if (rank + 1) * dev // held_out_count > rank * dev // held_out_count
            else "test"
            for rank in range(held_out_count)
        }

    def _lines(self) -> Iterator[str]:
        if self.settings.tagged is None:
            yield from reading.lines(self._file)
            return
        for number, line in enumerate(reading.lines(self._file), 1):
            name, tab, text = line.partition("\t")
            if not tab:
                hint = "Lines are expected as in: en<TAB>text."
                raise UserError("no tab after a language", where=f"{self._file}:{number}", hint=hint)
            if name == self.name:
                yield text


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
        import numpy as np

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
            lines_of_each = ((cells[0] for cells in document) for document in split_at_blank_lines(rows, self.files))
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


def _resolve(request: Request) -> ResolvedSource:
    settings: PlainTexts = request.settings
    fields = select_fields(request.languages, text_fields(settings.names), "plain.languages")
    file_of: dict[str, tuple[Path, ...]]
    if settings.tagged is not None:
        file_of = dict.fromkeys(fields, (find_file(settings.tagged, request.base),))
    else:
        assert settings.folder is not None  # one of the two is set
        folder = find(settings.folder, request.base)
        file_of = {
            code: document_files(folder, settings.names[code])
            if settings.documents == "files"
            else (existing(folder / f"{settings.names[code]}.txt"),)
            for code in fields
        }
    if settings.documents is not None:
        make = partial(PlainDocumentsSource, limit=request.limit, settings=settings)
        return not_parallel({field.name: make(fields=(field,), files=file_of[code]) for code, field in fields.items()})
    lines = partial(PlainSource, limit=request.limit, settings=settings)
    return not_parallel(
        {
            field.name: lines(fields=(field,), files=file_of[code], name=settings.names[code])
            for code, field in fields.items()
        }
    )


PLAIN = SourceKind(
    name="plain",
    fields=Plain,
    resolve=_resolve,
    names_languages=True,
    by_language=lambda source: by_language(source, "plain", "languages", source.plain.names),
)
