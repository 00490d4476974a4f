"""Classes in dev and test that training text lacks: no model can name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.data.text import reading
from subgraft.data.text.fields import LABELS, Field, json_cell


def require_classes(field: Field, classes: Iterable[str], where: str) -> None:
    """Raises UserError unless there are two training classes, the fewest that can be learnt."""
    if len(seen := {*classes}) < 2:
        has = f"only '{next(iter(seen))}'" if seen else "none"
        hint = "Two are the fewest that can be learnt. Is it the right column?"
        raise UserError(f"the training examples have {has} as {field.name}", where=where, hint=hint)


@dataclass(frozen=True)
class Limited:
    """The lines of a field that have classes of training text alone.

    Attributes:
        unknown: The numbers, from 0, of lines with another class.
        counts: Numbers of dropped examples and types.
        examples: Some of the other classes, for messages.
    """

    unknown: frozenset[int]
    counts: Counter[str]
    examples: str


def limited_to_classes(field: Field, path: Path, classes: Collection[str]) -> Limited:
    """Find lines with classes that training text lacks.

    An entity with several types loses the unknown ones, in the file; its line is unknown if it has no other.
    """
    unknown, counts, others = set[int](), Counter[str](), dict[str, None]()
    lines = list(reading.lines(path))
    for number, line in enumerate(lines):
        missing = dict.fromkeys(each for each in field.classes(line) if each not in classes)
        if not missing:
            continue
        others |= missing
        remaining = [each for each in field.classes(line) if each not in missing] if field.name == LABELS else []
        if remaining:
            lines[number] = json_cell(remaining)
            counts["unknown_types_removed"] += len(missing)
        else:
            unknown.add(number)
    counts["unknown_label"] += len(unknown)
    if counts["unknown_types_removed"]:
        _write(path, lines)
    return Limited(frozenset(unknown), +counts, ", ".join(sorted(others)[:5]))


def drop_lines(path: Path, numbers: Collection[int]) -> None:
    """Write a file again, without the lines of these numbers, from 0."""
    _write(path, [line for number, line in enumerate(reading.lines(path)) if number not in numbers])


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(f"{line}\n" for line in lines)
