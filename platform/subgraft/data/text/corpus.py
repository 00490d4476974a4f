"""A corpus: a folder of plain UTF-8 files, one segment per line, with a record of how it was built."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.data.text import fields as field_names
from subgraft.data.text import reading
from subgraft.data.text.fields import Field, Run, runs
from subgraft.data.text.segments import Pairs, Text
from subgraft.data.text.tensors import StoredTensor

# The value of a field: the text of a text or label, the bounds of a span, the row of a tensor, or a value in JSON.
Value: TypeAlias = "str | tuple[int, int] | np.ndarray | float | list[Any]"

RECORD = "corpus.json"
# The formats of records: of a pair or one text, and of all other corpora.
_PAIR, _FIELDS = 1, 2


@dataclass(frozen=True)
class Corpus:
    """A folder with {train,dev,test}.{field} and corpus.json; {split}.documents has each segment's place in a document.

    Attributes:
        directory: The folder.
        fields: The fields of every segment.
        generated: Whether it is the built-in corpus.
        sizes: Segments per split.
        counts: Per split, the segments "read", "kept" and dropped by each cleaning rule, "documents" and "broken"
            documents, and counts reported by the source.
        identity: The inputs it was built from.
        aligned: Whether the fields are parallel. Otherwise each text has its own segments, with `field_sizes` per split
            and {split}.{field}.documents.
        documented: The fields whose segments belong to documents.
        field_sizes: Per split, segments of each field, if not aligned.
        classes: The sorted classes in the training segments of each field that has classes.
        cache: The shared cache of encoded text, if any.
    """

    directory: Path
    fields: tuple[Field, ...]
    generated: bool
    sizes: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]
    identity: Mapping[str, object]
    aligned: bool = True
    documented: tuple[str, ...] = ()
    field_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cache: Path | None = field(default=None, compare=False, repr=False)

    @classmethod
    def open(cls, directory: Path, cache: Path | None = None) -> Corpus:
        """Open the corpus in a directory. Raises UserError if there is none that this version can read."""
        try:
            record = json_io.parse_object((directory / RECORD).read_bytes())
        except (OSError, ValueError):
            raise UserError(f"not a corpus: it contains no readable {RECORD}", where=str(directory)) from None
        version = record.pop("format", None)
        if version not in (_PAIR, _FIELDS):
            raise UserError("a corpus of another version", where=str(directory / RECORD), hint="Build it again.")
        try:
            contents = _pair_from(record) if version == _PAIR else _fields_from(record)
            return cls(directory=directory, cache=cache, **contents)
        except (KeyError, TypeError, ValueError, AttributeError):
            where = str(directory / RECORD)
            raise UserError("not the record of a corpus", where=where, hint="Build it again.") from None

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.sizes)

    @property
    def languages(self) -> tuple[str, ...]:
        """The language of each text."""
        return tuple(str(field.language) for field in field_names.texts(self.fields))

    @property
    def monolingual(self) -> bool:
        """Whether it has one text."""
        return len(self.languages) == 1

    @property
    def labelled(self) -> bool:
        """Whether its segments are labelled examples, for tasks of understanding."""
        return "labelled" in self.identity

    @property
    def is_pair(self) -> bool:
        """Whether its fields are exactly source and target, or source."""
        names = [field.name for field in self.fields if field.kind == "text"]
        plain = self.aligned and not self.documented and len(names) == len(self.fields)
        return plain and names in (["source"], ["source", "target"])

    def size(self, split: str, field: str | None = None) -> int:
        """Segments of a split, or of one field of it. Raises UserError if there is no such split."""
        if split not in self.sizes:
            what = f"has no {split} split (there is: {', '.join(self.sizes)})"
            raise UserError(what, where=str(self.directory))
        if field is None or self.aligned:
            return self.sizes[split]
        return self.field_sizes[split].get(field, 0)

    def field(self, name: str) -> Field:
        """The field of that name. Raises UserError if there is none."""
        declared = next((field for field in self.fields if field.name == name), None)
        if declared is None:
            lacks_target = name == "target" and self.is_pair
            what = "a monolingual corpus has no target side" if lacks_target else f"no field '{name}'"
            raise UserError(what, where=str(self.directory), hint=f"It has: {', '.join(f.name for f in self.fields)}.")
        return declared

    def text_of(self, side: SideName) -> str:
        """The field that a side of a model reads or writes; if there is only one text, that one."""
        names = [each.name for each in field_names.texts(self.fields)]
        return names[0] if self.monolingual else {"encoder": "source", "decoder": "target"}[side]

    def lines(self, split: str, field: str) -> Iterator[str]:
        """The segments of a text, the labels of a label field, or lines of JSON, streaming."""
        return reading.lines(
            self._file_of_kind(split, field, ("text", "label", "spans", "triples", "conversation", "annotation"))
        )

    def text(self, split: str, field: str) -> Text:
        """The segments of a text, read on access; encoded once if the corpus has a cache."""
        return Text(self._file_of_kind(split, field, ("text",)), self.cache)

    def conversations(self, split: str) -> Iterator[list[dict[str, str]]]:
        """The turns of each conversation, with `role` and `content`, streaming."""
        for line in self.lines(split, field_names.CONVERSATION):
            yield [{"role": role, "content": content} for role, content in json.loads(line)]

    def annotations(self, split: str, field: str) -> Iterator[Any]:
        """The values of an annotation field, such as a list of tags, or spans [start, end, name], streaming."""
        return map(json.loads, reading.json_lines(self._file_of_kind(split, field, ("annotation", "spans", "triples"))))

    def fields_of(self, text: str, kind: Literal["spans", "triples"]) -> tuple[str, ...]:
        """The fields of named spans of a text, or of triples that it states."""
        return tuple(each.name for each in self.fields if each.kind == kind and each.of == text)

    def texts(self, split: str) -> Iterator[tuple[str, Text]]:
        """Every text with its language, read on access."""
        for text in field_names.texts(self.fields):
            if self.size(split, text.name):
                yield str(text.language), self.text(split, text.name)

    def pairs(self, split: str, languages: Languages | None = None) -> Iterator[tuple[str, str]]:
        """(source, target) pairs, streaming; `languages` selects two of several texts."""
        source, target = self._pair(languages)
        return zip(self.lines(split, source), self.lines(split, target), strict=True)

    def text_pairs(self, split: str, languages: Languages | None = None) -> Pairs:
        """(source, target) pairs as a sequence, read on access."""
        source, target = self._pair(languages)
        return Pairs(self.text(split, source), self.text(split, target))

    def pairs_or_text(self, split: str) -> Pairs:
        """(source, target) pairs as a sequence; if there is one text only, its segments with empty sources."""
        if self.monolingual:
            return Pairs(None, self.text(split, self.text_of("decoder")))
        return self.text_pairs(split)

    def records(self, split: str, *names: str) -> Iterator[tuple[Value, ...]]:
        """The values of these fields (default: all), segment by segment, streaming."""
        if not self.aligned:
            raise UserError("its texts are not parallel: there are no records", where=str(self.directory))
        selected = [self.field(name) for name in names] if names else list(self.fields)
        return zip(*(self._values(split, field) for field in selected), strict=True)

    def documents(self, split: str, field: str | None = None) -> Iterator[Run]:
        """The documents of a split, or of one text of it, as runs of neighbouring segments: gaps split a document.

        Raises UserError for a corpus without documents, or if its texts are not parallel and no field is named.
        """
        self.size(split)
        if field is None and not self.aligned:
            raise UserError("its texts are not parallel: ask for the documents of one", where=str(self.directory))
        name = self.fields[0].name if field is None else self.field(field).name
        if not self.has_documents(name):
            hint = "Its source must say where they are: records with `document`, or verses."
            raise UserError("a corpus without documents", where=str(self.directory), hint=hint)
        return runs(reading.lines(self.documents_file(split, name)))

    def has_documents(self, field: str | None = None) -> bool:
        """Whether segments (of a field) belong to documents."""
        return bool(self.documented) if field is None else field in self.documented

    def file(self, split: str, field: str) -> Path:
        """The file of a field."""
        tensor = self.field(field).kind == "tensor"
        return self.directory / (f"{split}.{field}.safetensors" if tensor else f"{split}.{field}")

    def documents_file(self, split: str, field: str) -> Path:
        """The file with the documents of a field's segments."""
        return self.directory / (f"{split}.documents" if self.aligned else f"{split}.{field}.documents")

    def _file_of_kind(self, split: str, name: str, kinds: tuple[str, ...]) -> Path:
        self.size(split)
        declared = self.field(name)
        if declared.kind not in kinds:
            raise UserError(f"the field '{name}' is a {declared.kind}, not a {kinds[0]}", where=str(self.directory))
        return self.file(split, name)

    def _pair(self, languages: Languages | None) -> tuple[str, str]:
        names = [field.name for field in field_names.texts(self.fields)]
        if languages is not None and "source" not in names:
            selected = field_names.select_fields(languages, field_names.texts(self.fields), str(self.directory))
            names = list(selected)
        if not self.aligned:
            raise UserError("its texts are not parallel: there are no pairs", where=str(self.directory))
        if len(names) == 1 and self.is_pair:
            self.field("target")
        if len(names) != 2:
            what = f"contains {len(names)} texts ({', '.join(names)}), where a pair is needed"
            raise UserError(what, where=str(self.directory))
        return names[0], names[1]

    def _values(self, split: str, field: Field) -> Iterator[Value]:
        self.size(split)
        if field.kind == "tensor":
            return iter(StoredTensor(self.file(split, field.name), field.name))
        if field.kind in ("annotation", "spans", "triples"):
            return self.annotations(split, field.name)
        lines = reading.lines(self.file(split, field.name))
        return (_bounds(line) for line in lines) if field.kind == "span" else lines

    def save(self) -> None:
        """Write corpus.json; pairs and single texts have a shorter record."""
        counted = {"sizes": self.sizes, "counts": self.counts, "identity": self.identity}
        record: dict[str, Any]
        if self.is_pair:
            languages = (self.languages[0], self.languages[-1])
            record = {"format": _PAIR, "languages": languages, "generated": self.generated}
            record |= {"monolingual": self.monolingual, **counted}
        else:
            record = {
                "format": _FIELDS,
                "fields": [asdict(field) for field in self.fields],
                "aligned": self.aligned,
                "documented": self.documented,
                "field_sizes": self.field_sizes,
                "classes": self.classes,
                "generated": self.generated,
                **counted,
            }
        text = json.dumps(record, ensure_ascii=False, indent=2)
        (self.directory / RECORD).write_text(text + "\n", encoding="utf-8")


def _pair_from(record: dict[str, Any]) -> dict[str, Any]:
    source, target = record.pop("languages")
    two = not record.pop("monolingual")
    return {**record, "fields": field_names.pair_fields(Languages(source=source, target=target), two=two)}


def _fields_from(record: dict[str, Any]) -> dict[str, Any]:
    parsed = {
        "fields": tuple(Field(**field) for field in record["fields"]),
        "documented": tuple(record["documented"]),
        "classes": {name: tuple(labels) for name, labels in record["classes"].items()},
    }
    return {**record, **parsed}


def _bounds(line: str) -> tuple[int, int]:
    start, end = line.split("\t")
    return int(start), int(end)


def training_texts(*corpora: Corpus) -> dict[str, list[Text]]:
    """The training texts of several corpora by field name, in the order of the corpora."""
    by_field: dict[str, list[Text]] = {}
    for corpus in corpora:
        for text in field_names.texts(corpus.fields):
            if corpus.size("train", text.name):
                by_field.setdefault(text.name, []).append(corpus.text("train", text.name))
    return by_field


def training_texts_by_language(*corpora: Corpus) -> dict[tuple[str, str], list[Text]]:
    """The training texts of several corpora by field name and language, because directions differ in language."""
    by_language: dict[tuple[str, str], list[Text]] = {}
    for corpus in corpora:
        for text in field_names.texts(corpus.fields):
            if corpus.size("train", text.name):
                by_language.setdefault((text.name, str(text.language)), []).append(corpus.text("train", text.name))
    return by_language


def training_lines(side: str, *corpora: Corpus) -> Iterator[str]:
    """The training segments of one text of several corpora. Raises UserError if the first has no such text."""
    first, *others = corpora
    with_side = [corpus for corpus in others if any(each.name == side for each in corpus.fields)]
    return chain.from_iterable(corpus.lines("train", side) for corpus in (first, *with_side))


class ClassLabels(NamedTuple):
    """The label field of a corpus, and the distinct labels of its training segments, sorted."""

    field: str
    labels: tuple[str, ...]


def class_labels(corpus: Corpus) -> ClassLabels:
    """The classes of a corpus. Raises UserError if its segments have no label, or several."""
    names = [each.name for each in corpus.fields if each.kind == "label" and each.has_classes]
    if len(names) != 1:
        raise UserError(f"it has {len(names)} fields of kind label, where one is needed", where=str(corpus.directory))
    return ClassLabels(names[0], corpus.classes[names[0]])


def labels_of(corpus: Corpus, field: str = "label") -> tuple[str, ...]:
    """The sorted classes of a field in training text: labels, tags or types. Raises UserError if it has none."""
    if field not in corpus.classes:
        known = ", ".join(corpus.classes) or "none"
        raise UserError(f"no classes of '{field}'", where=str(corpus.directory), hint=f"It has classes of: {known}.")
    return corpus.classes[field]
