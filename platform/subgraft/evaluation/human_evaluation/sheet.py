"""Blind sheets: texts of several systems, in one order for each judge, under keys that tell nothing of the systems."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.evaluation.human_evaluation.key import Key, Written

# What people wrote, among the systems.
REFERENCE = "reference text"
# Of a sheet's columns, those before the questions.
COLUMNS = ("key", "source", "text")
# What a spreadsheet takes for a formula where a cell begins with it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Outputs:
    """What a system wrote under one seed, for the sources of a run, in their order."""

    system: str
    seed: int
    texts: Sequence[str]


@dataclass(frozen=True)
class Material:
    """Of a run: its name, its sources, what people wrote for them, and what systems did."""

    run: str
    sources: Sequence[str]
    references: Sequence[str]
    outputs: Sequence[Outputs]


@dataclass(frozen=True)
class Form:
    """What judges are asked: questions, each answered by a whole number from 0 to `most`."""

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
    """The key of a sheet, and of each of its keys the source and the text.

    items: how many sources are drawn; 125 where None, or as many as there are. Every system has a text for each of
    them, of one of its seeds, drawn too. Raises UserError where the systems have not written so many.
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
        # A byte order mark, by which spreadsheets know UTF-8.
        with (out / f"judge-{judge}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow([_cell(name) for name in (*COLUMNS, *key.questions)])
            writer.writerows([name, *map(_cell, shown[name]), *[""] * len(key.questions)] for name in order)


def _cell(text: str) -> str:
    """As text, never as a formula (OWASP, CSV injection)."""
    return f"'{text}" if text.startswith(_FORMULA) else text
