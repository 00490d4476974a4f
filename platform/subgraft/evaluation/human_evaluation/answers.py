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

_LARGEST = 64 << 20  # bytes
_MOST_MISTAKES = 20  # of an error message
# Programs write other separators in other countries.
_DELIMITERS = ",;\t"

# A judge's answers to each question, by key.
Answers = Mapping[str, tuple[int, ...]]


def read_answers(sheets: Sequence[Path], key: Key) -> dict[str, Answers]:
    """Answers by judge, whose name is the file's.

    Raises UserError with every text without an answer, every answer out of range, and every key that is not the
    sheet's or there twice.
    """
    judges = [sheet.stem for sheet in sheets]
    if len(set(judges)) < len(judges):
        raise UserError(
            "two sheets have the same name, but judges are named after their sheets",
            hint="Give each a name of its own.",
        )
    mistakes: list[str] = []
    answers: dict[str, Answers] = {sheet.stem: dict(_answers(sheet, key, mistakes)) for sheet in sheets}
    if mistakes:
        more = [f"and {len(mistakes) - _MOST_MISTAKES} more"] if len(mistakes) > _MOST_MISTAKES else []
        raise UserError(
            "\n".join([*mistakes[:_MOST_MISTAKES], *more]), hint=f"An answer is a whole number from 0 to {key.most}."
        )
    return answers


def _answers(sheet: Path, key: Key, mistakes: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    seen: set[str] = set()
    for line, row in _rows(sheet, key):
        name = row.get("key", "")
        where = f"{sheet}:{line}"
        if name not in key.texts:
            mistakes.append(f"{where}: unknown key {name!r:.40}")
        elif name in seen:
            mistakes.append(f"{where}: key {name} is there twice")
        else:
            seen.add(name)
            cells = {question: _answer(row.get(_plain(question), ""), key.most) for question in key.questions}
            mistakes += [
                f"{where}: {question}: {answer}" for question, answer in cells.items() if isinstance(answer, str)
            ]
            yield name, tuple(answer for answer in cells.values() if isinstance(answer, int))
    if missing := [name for name in key.texts if name not in seen]:
        mistakes.append(f"{sheet}: {len(missing)} texts of the sheet are not there, such as {missing[0]}")


def _answer(cell: str, most: int) -> int | str:
    """An answer, or what is wrong with it. A spreadsheet may have made 1.0 of 1."""
    text = cell.strip().removesuffix(".0").removesuffix(",0")
    if not text:
        return "no answer"
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) and int(text) <= most else f"{cell!r:.40} is not an answer"


def _rows(sheet: Path, key: Key) -> list[tuple[int, dict[str, str]]]:
    """Rows with the number of the line that each ends on. Raises UserError for another file."""
    if not require_path(sheet).is_file():
        raise UserError("there is no such file", where=str(sheet))
    if sheet.stat().st_size > _LARGEST:
        raise UserError(f"larger than {_LARGEST:,} bytes: this is not a sheet", where=str(sheet))
    try:
        text = sheet.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("not UTF-8", where=str(sheet), hint="Save it as CSV in UTF-8.") from None
    after_key = re.match(r'"?key"?(.)', text)
    delimiter = after_key[1] if after_key and after_key[1] in _DELIMITERS else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        heading = [_plain(cell) for cell in next(reader, [])]
        rows = [(reader.line_num, dict(zip(heading, row, strict=False))) for row in reader if any(row)]
    except csv.Error as error:
        raise UserError(f"no CSV: {error}", where=str(sheet)) from None
    if lacking := [name for name in ("key", *(_plain(question) for question in key.questions)) if name not in heading]:
        raise UserError(f"no column '{lacking[0]}'", where=str(sheet), hint="Leave the first line as it was made.")
    return rows


def _plain(question: str) -> str:
    """Without the mark that keeps a spreadsheet from reading a formula."""
    return question.removeprefix("'")
