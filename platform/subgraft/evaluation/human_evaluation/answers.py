"""Reads filled sheets and reports every mistake in them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import require_path
from subgraft.evaluation.human_evaluation.sheet import Key

_MAX_BYTES = 64 << 20  # of a sheet
_MAX_MISTAKES = 20  # listed in an error message
# Spreadsheet programs choose the separator by country.
_DELIMITERS = ",;\t"

# A judge's answers to each question, by key.
Answers = Mapping[str, tuple[int, ...]]


def read_answers(sheets: Sequence[Path], key: Key) -> dict[str, Answers]:
    """Read the answers of every judge, who is named after the file, to texts with an answer to every question.

    Raises:
        UserError: an answer is out of range, a key is unknown or repeated, a row is missing, or no row is filled in.
            The error lists every mistake.
    """
    judges = [sheet.stem for sheet in sheets]
    if len(set(judges)) < len(judges):
        raise UserError(
            "two sheets have the same name, but judges are named after their sheets",
            hint="Give each a name of its own.",
        )
    mistakes: list[str] = []
    answers: dict[str, Answers] = {sheet.stem: dict(_parse_sheet(sheet, key, mistakes)) for sheet in sheets}
    if mistakes:
        more = [f"and {len(mistakes) - _MAX_MISTAKES} more"] if len(mistakes) > _MAX_MISTAKES else []
        raise UserError(
            "\n".join([*mistakes[:_MAX_MISTAKES], *more]), hint=f"An answer is a whole number from 0 to {key.most}."
        )
    if not any(answers.values()):
        raise UserError(
            "no row is filled in",
            where=", ".join(map(str, sheets)),
            hint="Rows without an answer to every question are left out.",
        )
    return answers


def _parse_sheet(sheet: Path, key: Key, mistakes: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    seen: set[str] = set()
    for line, row in _read_rows(sheet, key):
        name = row.get("key", "")
        where = f"{sheet}:{line}"
        if name not in key.texts:
            mistakes.append(f"{where}: unknown key {name!r:.40}")
        elif name in seen:
            mistakes.append(f"{where}: key {name} is there twice")
        else:
            seen.add(name)
            cells = {
                question: _parse_answer(row.get(_strip_formula_mark(question), ""), key.most)
                for question in key.questions
            }
            mistakes += [
                f"{where}: {question}: {answer}" for question, answer in cells.items() if isinstance(answer, str)
            ]
            if all(isinstance(answer, int) for answer in cells.values()):
                yield name, tuple(answer for answer in cells.values() if isinstance(answer, int))
    if missing := [name for name in key.texts if name not in seen]:
        mistakes.append(f"{sheet}: {len(missing)} texts of the sheet are not there, such as {missing[0]}")


def _parse_answer(cell: str, highest: int) -> int | str | None:
    """Parse a cell into an answer, None if it is empty, or a description of the mistake.

    A spreadsheet may have turned 1 into 1.0.
    """
    text = cell.strip().removesuffix(".0").removesuffix(",0")
    if not text:
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) and int(text) <= highest else f"{cell!r:.40} is not an answer"


def _read_rows(sheet: Path, key: Key) -> list[tuple[int, dict[str, str]]]:
    """Read the rows, each with the number of its last line. Raises UserError if the file is not a sheet."""
    if not require_path(sheet).is_file():
        raise UserError("there is no such file", where=str(sheet))
    if sheet.stat().st_size > _MAX_BYTES:
        raise UserError(f"larger than {_MAX_BYTES:,} bytes: this is not a sheet", where=str(sheet))
    try:
        text = sheet.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("not UTF-8", where=str(sheet), hint="Save it as CSV in UTF-8.") from None
    after_key = re.match(r'"?key"?(.)', text)
    delimiter = after_key[1] if after_key and after_key[1] in _DELIMITERS else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        heading = [_strip_formula_mark(cell) for cell in next(reader, [])]
        rows = [(reader.line_num, dict(zip(heading, row, strict=False))) for row in reader if any(row)]
    except csv.Error as error:
        raise UserError(f"not a CSV file: {error}", where=str(sheet)) from None
    if missing := [
        name for name in ("key", *(_strip_formula_mark(question) for question in key.questions)) if name not in heading
    ]:
        raise UserError(
            f"no column '{missing[0]}'", where=str(sheet), hint="Do not change the first line of the sheet."
        )
    return rows


def _strip_formula_mark(question: str) -> str:
    """Remove the apostrophe that keeps a spreadsheet from reading the question as a formula."""
    return question.removeprefix("'")
