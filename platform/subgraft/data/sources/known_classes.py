"""Classes in dev and test that do not occur in training text, so that no model can predict them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.data.text import reading
from subgraft.data.text.fields import LABELS, TAGS, Field, json_cell


def require_classes(field: Field, classes: Iterable[str], where: str) -> None:
    """Raises UserError if there are fewer than two training classes."""
    if len(seen := {*classes}) < 2:
        has = f"only '{next(iter(seen))}'" if seen else "none"
        hint = "At least two are required. Is it the right column?"
        raise UserError(f"the training examples have {has} as {field.name}", where=where, hint=hint)


@dataclass(frozen=True)
class LimitedLines:
    """The result of limiting the lines of a field to classes of training text.

    Attributes:
        unknown: The numbers, from 0, of lines without such a class, which are dropped.
        counts: Numbers of dropped examples, of removed types, and of unknown tags.
        examples: Some of the unknown classes, for messages.
    """

    unknown: frozenset[int]
    counts: Counter[str]
    examples: str


def limit_to_classes(field: Field, path: Path, classes: Collection[str]) -> LimitedLines:
    """Find lines with classes that training text lacks.

    Unknown types of an entity with several types are removed from the file; its line is unknown if no type remains.
    Sentences with unknown tags stay, because every model gets such tags wrong; unless no sentence has a known tag.
    """
    unknown, counts, unknown_classes = set[int](), Counter[str](), dict[str, None]()
    lines = list(reading.lines(path))
    for number, line in enumerate(lines):
        of_line = field.classes(line)
        known = [name for name in of_line if name in classes]
        if len(known) == len(of_line):
            continue
        unknown_classes |= dict.fromkeys(name for name in of_line if name not in classes)
        if field.name == TAGS:
            counts["unknown_tags"] += len(of_line) - len(known)
        if not known or field.name not in (TAGS, LABELS):
            unknown.add(number)
        elif field.name == LABELS:
            lines[number] = json_cell(known)
            counts["unknown_types_removed"] += len(of_line) - len(known)
    if field.name == TAGS and len(unknown) < len(lines):
        unknown = set()
    counts["unknown_label"] += len(unknown)
    if counts["unknown_types_removed"]:
        _write(path, lines)
    return LimitedLines(frozenset(unknown), +counts, ", ".join(sorted(unknown_classes)[:5]))


def drop_lines(path: Path, numbers: Collection[int]) -> None:
    """Rewrite a file without the lines of these numbers, counted from 0."""
    _write(path, [line for number, line in enumerate(reading.lines(path)) if number not in numbers])


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(f"{line}\n" for line in lines)
