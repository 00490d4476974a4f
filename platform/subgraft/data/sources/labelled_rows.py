"""The rows of labelled files: CSV, tab-separated, JSON lines, CoNLL, SQuAD's JSON, and folders of classes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.data.sources import squad
from subgraft.data.sources.labelled_files import LabelledFiles
from subgraft.data.tasks.labelled import Row
from subgraft.data.text import reading

# Between columns of CoNLL without tabs. Other spaces, such as the no-break space of `10\u00a0000`, are part of a word.
_SPACES = re.compile(" +")


def rows(path: Path, settings: LabelledFiles) -> Iterator[Row]:
    """The rows of a file, or of a folder of classes. Raises UserError, with the line, for one of another form."""
    match settings.format_of(path.name):
        case "csv" | "tsv" as form:
            lines = _csv(path, settings.delimiter) if form == "csv" else _tsv(path)
            yield from _numbered(lines) if settings.numbered else _with_header(lines, path)
        case "jsonl":
            for number, record in enumerate(json_io.objects(reading.lines(path), path), 1):
                yield Row(record, f"{path}:{number}")
        case "conll":
            yield from _sentences(path, settings)
        case "squad":
            for question in squad.answered_questions(path):
                columns = {"question": question.text, "passage": question.passage, "answers": question.answers}
                yield Row(columns | {"number": question.number}, question.where, question.article)
        case "folders":
            for file in class_files(path):
                yield from _class_rows(file, path)
        case None:
            next(reading.lines(path), None)  # says what the file is if it is of a known format without lines
            hint = "Give labelled.format, such as tsv or jsonl."
            raise UserError("the name does not show the format of the file", where=str(path), hint=hint)


# The cells of a line, and its location.
Cells = tuple[Sequence[str], str]


def _csv(path: Path, delimiter: str) -> Iterator[Cells]:
    # The limit of csv on a field is for the whole process; texts of 131,072 characters and more are usual.
    csv.field_size_limit(max(csv.field_size_limit(), reading.LONGEST_LINE))
    reader = csv.reader((f"{line}\n" for line in reading.lines(path)), delimiter=delimiter, strict=True)
    while True:
        where = f"{path}:{reader.line_num + 1}"  # the row's first line; quoted line breaks may extend it
        try:
            cells = next(reader, None)
        except csv.Error as error:
            hint = "Enclose text with quotes, delimiters or line breaks in quotes, and double the quotes inside it."
            raise UserError(f"not CSV: {error}", where=where, hint=hint) from None
        if cells is None:
            return
        if cells:
            yield cells, where


_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def _tsv(path: Path) -> Iterator[Cells]:
    """Cells in quotes are unquoted if all of the first line are, or if they double the quotes inside, as pandas writes.

    Other quotes are characters of the text.
    """
    all_quoted = None
    for number, line in enumerate(reading.lines(path), 1):
        if line:
            quoted = [(cell, _QUOTED.fullmatch(cell)) for cell in line.split("\t")]
            all_quoted = all(match for _, match in quoted) if all_quoted is None else all_quoted
            yield (
                [
                    match[1].replace('""', '"') if match and (all_quoted or '""' in match[1]) else cell
                    for cell, match in quoted
                ],
                f"{path}:{number}",
            )


def _numbered(lines: Iterable[Cells]) -> Iterator[Row]:
    return (Row(dict(enumerate(cells, 1)), where) for cells, where in lines)


def _with_header(lines: Iterator[Cells], path: Path) -> Iterator[Row]:
    names, header_where = next(lines, ([], str(path)))
    names = [name.strip() for name in names]
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise UserError(f"two columns are called '{repeated[0]}'", where=header_where)
    for cells, where in lines:
        if len(cells) > len(names):
            hint = (
                f"The header has: {', '.join(names):.500}. In csv, enclose text that contains the delimiter in quotes."
            )
            raise UserError(f"{len(cells)} columns, where the header has {len(names)}", where=where, hint=hint)
        yield Row(dict(zip(names, cells, strict=False)), where)


def _sentences(path: Path, settings: LabelledFiles) -> Iterator[Row]:
    """The words and tags of each sentence; rows of -DOCSTART- are left out."""
    names = settings.columns("word")[0], settings.columns("tag")[0]
    words, tags, where = list[str](), list[str](), ""
    for number, line in enumerate(reading.lines(path), 1):
        if settings.comments and line.startswith(settings.comments):
            continue
        cells = line.split("\t") if "\t" in line else _SPACES.split(line.strip(" "))
        blank = not line.strip() or cells[0] == "-DOCSTART-"
        if blank and words:
            yield Row(dict(zip(names, (words, tags), strict=True)), where)
            words, tags = [], []
        if not blank:
            line_where = f"{path}:{number}"
            where = where if words else line_where
            cell = Row(dict(enumerate(cells, 1)), line_where)
            if len(cells) < 2:
                raise UserError(
                    "a word without a tag", where=line_where, hint="A line has a word and its tag in two columns."
                )
            words.append(cell[settings.word or 1])
            tags.append(cell[settings.tag or len(cells)])
    if words:
        yield Row(dict(zip(names, (words, tags), strict=True)), where)


def class_files(folder: Path) -> list[Path]:
    """The files {class}/*.txt of a folder, plain or gzipped, in order, or {class}.txt where no class has a folder.

    Next to folders of classes, a file is a list of addresses or a description, as in published data sets.
    """
    for depth in ("*/", ""):
        files = [path for ending in ("*.txt", "*.txt.gz") for path in folder.glob(depth + ending)]
        if visible := sorted(path for path in files if path.is_file() and not path.name.startswith(".")):
            return visible
    raise UserError("no text by class: {class}/*.txt or {class}.txt expected", where=str(folder))


def _class_rows(file: Path, folder: Path) -> Iterator[Row]:
    if file.parent != folder:
        yield Row({"text": "\n".join(reading.lines(file)), "label": file.parent.name}, str(file))
        return
    label = file.name.removesuffix(".gz").removesuffix(".txt")
    for number, line in enumerate(reading.lines(file), 1):
        yield Row({"text": line, "label": label}, f"{file}:{number}")
