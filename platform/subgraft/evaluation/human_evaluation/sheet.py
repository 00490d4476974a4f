"""Blind sheets: texts of several systems, in an order of its own for each judge, under keys that hide the systems.

The key of a sheet, which system wrote each text, is a file of its own: judges must not see it.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.files import make_private, require_path

FORMAT = 1
_KEY = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Written:
    """The writer of a text: its system and seed, and the place of its source in the run."""

    system: str
    seed: int
    item: int


@dataclass(frozen=True)
class Key:
    """run: that the texts are from.  seed: of items, orders and keys.  questions: each answered from 0 to `most`."""

    run: str
    seed: int
    questions: tuple[str, ...]
    most: int
    texts: Mapping[str, Written]

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(written.system for written in self.texts.values()))

    def write(self, file: Path) -> None:
        """To a file that only this user can read."""
        make_private(file, json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Key:
        """Raises UserError for another file."""
        if not require_path(file).is_file():
            raise UserError("there is no such file", where=str(file))
        try:
            return _parsed(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            hint = "`subgraft judge make` writes one, where --key says."
            raise UserError("this is not the key of a blind sheet", where=str(file), hint=hint) from None


def _parsed(stored: Any) -> Key:
    if stored["format"] != FORMAT:
        raise ValueError
    texts = {
        name: Written(str(one["system"]), int(one["seed"]), int(one["item"])) for name, one in stored["texts"].items()
    }
    questions, most = tuple(map(str, stored["questions"])), int(stored["most"])
    if not texts or not questions or most < 1 or not all(map(_KEY.fullmatch, texts)):
        raise ValueError
    return Key(str(stored["run"]), int(stored["seed"]), questions, most, texts)


# The name of the reference texts among the systems.
REFERENCE = "reference text"
# Of a sheet's columns, those before the questions.
COLUMNS = ("key", "source", "text")
# A spreadsheet reads a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Outputs:
    """A system's texts under one seed, in the order of the run's sources."""

    system: str
    seed: int
    texts: Sequence[str]


@dataclass(frozen=True)
class Material:
    """A run's name, sources, reference texts and outputs."""

    run: str
    sources: Sequence[str]
    references: Sequence[str]
    outputs: Sequence[Outputs]


@dataclass(frozen=True)
class Form:
    """The questions to judges, each answered by a whole number from 0 to `most`."""

    questions: tuple[str, ...]
    most: int

    def __post_init__(self) -> None:
        names = [*COLUMNS, *self.questions]
        if not self.questions or not all(question.strip() for question in self.questions):
            raise UserError("a question is empty", where="--question")
        if len(set(names)) < len(names):
            raise UserError(
                "two columns would have one name", where="--question", hint=f"They are: {', '.join(names)}."
            )


def blind(material: Material, form: Form, items: int | None, seed: int) -> tuple[Key, dict[str, tuple[str, str]]]:
    """The key of a sheet, and the source and text under each of its keys.

    items: how many sources are drawn; if None 125, or all if there are fewer. For each source every system has one
    text, from a seed that is drawn too. Raises UserError if the systems have written fewer texts.
    """
    drawn = random.Random(seed)
    names = list(dict.fromkeys(each.system for each in material.outputs))
    if REFERENCE in names:
        raise UserError(f"a system is named '{REFERENCE}'", where=material.run, hint="What people wrote is called so.")
    by_system = {name: [each for each in material.outputs if each.system == name] for name in names}
    by_system[REFERENCE] = [Outputs(REFERENCE, 0, material.references)]
    there = min(len(each.texts) for of_one in by_system.values() for each in of_one)
    wanted = min(there, 125) if items is None else items
    if wanted > there:
        hint = "Evaluations write as many for a class as evaluation.speed_sentences says."
        raise UserError(f"{wanted} items are wanted and there are {there}", where="--items", hint=hint)
    chosen = sorted(drawn.sample(range(there), wanted))
    keys = iter(drawn.sample(range(16**8), len(by_system) * wanted))
    texts: dict[str, Written] = {}
    shown: dict[str, tuple[str, str]] = {}
    for item in chosen:
        for name, of_one in by_system.items():
            key, one = f"{next(keys):08x}", drawn.choice(of_one)
            texts[key] = Written(name, one.seed, item)
            shown[key] = (material.sources[item], one.texts[item])
    return Key(material.run, seed, form.questions, form.most, texts), shown


def write_sheets(out: Path, key: Key, shown: Mapping[str, tuple[str, str]], judges: int) -> None:
    """A sheet judge-N.csv for each of so many judges into the existing directory, in an order of its own."""
    for judge in range(1, judges + 1):
        order = sorted(shown)
        random.Random(f"{key.seed} {judge}").shuffle(order)
        # With a byte order mark, by which spreadsheets recognise UTF-8.
        with (out / f"judge-{judge}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow([_cell(name) for name in (*COLUMNS, *key.questions)])
            writer.writerows([name, *map(_cell, shown[name]), *[""] * len(key.questions)] for name in order)


def _cell(text: str) -> str:
    """As text, never as a formula (OWASP, CSV injection)."""
    return f"'{text}" if text.startswith(_FORMULA) else text
