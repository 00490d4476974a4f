"""Settings of the files of a corpus and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.settings_base import Count, Seed, Settings, Split

FieldKind = Literal["text", "label", "span", "spans", "triples", "tensor"]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


class UrlFile(Settings):
    """A file to download.

    url: its address; the file is plain text or gzipped.
    sha256: the digest of the downloaded bytes; any other file is refused.
    """

    url: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ColumnFiles(Settings):
    """Pairs in columns of a file: tab-separated columns by number, from 1, or fields of JSON lines by name.

    folder: a folder with {train,dev,test}.tsv[.gz], or .jsonl[.gz] if columns are named.
    files: a path per split, in place of folder.
    source, target: a column, or several, joined by `separator`; of a field that is a list, its first item.
    separator: the text between several columns.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    source: int | str | tuple[int | str, ...] = 1
    target: int | str | tuple[int | str, ...] = 2
    separator: str = " "

    @property
    def sides(self) -> tuple[tuple[int | str, ...], tuple[int | str, ...]]:
        """The columns of the source and of the target."""
        source, target = (side if isinstance(side, tuple) else (side,) for side in (self.source, self.target))
        return source, target

    @property
    def named(self) -> bool:
        """Whether columns are fields of JSON lines."""
        return isinstance(self.sides[0][0], str)

    @model_validator(mode="after")
    def _consistent(self) -> ColumnFiles:
        if not all(self.sides):
            raise ValueError("source and target need a column each")
        _require_files(self, [column for side in self.sides for column in side])
        return self


class RecordField(Settings):
    """A named field of records.

    kind: the type of its values: a text, a label, a span of a text, named spans of it, triples that it
    states, or a row of a tensor.
    column: the column that it is read from; the field's name by default.
    language: the language of a text; the field's name by default.
    of: the text that contains a span, [start, end] in characters; or spans, a list of [start, end, name], such as its
    entities; or the text that states triples, a list of [head, relation, tail]. Lists are JSON in a tab-separated file.

    A tensor has no column: its rows are in {train,dev,test}.{name}.safetensors next to the records.
    """

    kind: FieldKind = "text"
    column: int | str | None = None
    language: str | None = None
    of: str | None = None

    @model_validator(mode="after")
    def _of_its_kind(self) -> RecordField:
        if self.language is not None and self.kind != "text":
            raise ValueError("only a text has a language")
        if (self.of is not None) != (self.kind in ("span", "spans", "triples")):
            raise ValueError("spans and triples need `of`, the text that contains them, and other kinds cannot have it")
        if self.kind == "tensor" and self.column is not None:
            raise ValueError("a tensor has no column: its rows are in a safetensors file")
        return self


class RecordFiles(Settings):
    """Records of named fields: JSON lines, or tab-separated if columns are numbers, from 1.

    folder: a folder with {train,dev,test}.jsonl[.gz] or .tsv[.gz].
    files: a path per split, in place of folder.
    fields: the fields of a record, by name; at least one must be a text.
    document: the column with the name of a record's document; texts are then segments or lists of segments, and
    adjacent records with one name form the document.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    fields: Annotated[dict[FieldName, RecordField], Field(min_length=1)]
    document: int | str | None = None

    def column(self, name: str) -> int | str:
        """The column of a field."""
        column = self.fields[name].column
        return name if column is None else column

    @property
    def numbered(self) -> bool:
        """Whether columns are those of tab-separated files."""
        return any(isinstance(column, int) for column in self._columns)

    @property
    def _columns(self) -> list[int | str]:
        columns = [self.column(name) for name, field in self.fields.items() if field.kind != "tensor"]
        return columns if self.document is None else [*columns, self.document]

    @model_validator(mode="after")
    def _consistent(self) -> RecordFiles:
        _require_files(self, self._columns)
        if "documents" in self.fields:
            raise ValueError("no field can be called documents: a corpus uses that name for the documents of segments")
        texts = {name for name, field in self.fields.items() if field.kind == "text"}
        if not texts:
            raise ValueError("at least one field must be a text")
        for name, field in self.fields.items():
            if field.of is not None and field.of not in texts:
                raise ValueError(f"the {field.kind} {name} is of '{field.of}', which is not a text field")
        if self.folder is None and any(field.kind == "tensor" for field in self.fields.values()):
            raise ValueError("tensors are in the folder of their records: give folder, not files")
        return self


def _require_files(files: ColumnFiles | RecordFiles, columns: Sequence[int | str]) -> None:
    """Raise ValueError unless one of folder and files is set, and columns are all numbers from 1 or all names."""
    if (files.folder is None) == (files.files is None):
        raise ValueError("give exactly one of folder, files")
    if len({isinstance(column, str) for column in columns}) > 1:
        raise ValueError("columns are numbers (tab-separated) or names (JSON lines), not both")
    if any(isinstance(column, int) and column < 1 for column in columns):
        raise ValueError("columns are counted from 1")


class FeatureFiles(Settings):
    """Features computed by an external encoder, and a text for each example.

    folder: a folder with {train,dev,test}.safetensors and, for each, the texts {train,dev,test}.{language}[.gz], a line
    for each example.
    tensor: the name of the features in a file: [N, n, k] or [N, k] of N examples, or [m, k] with a tensor `rows` [N] of
    the number of rows of each. Without it, each example has its own tensor, named 0, 1, …
    """

    folder: str
    tensor: FieldName = "features"


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
