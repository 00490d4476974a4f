"""Blind sheets: texts of several systems, shuffled for each judge, under keys that hide the systems.

The key of a sheet records which system wrote each text. It is a separate file that judges must not see.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.base.security.private_files import make_private

FORMAT = 1
_KEY = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class TextOrigin:
    """The origin of a text: its system and seed, and the index of its source in the run."""

    system: str
    seed: int
    item: int


@dataclass(frozen=True)
class Key:
    """The key of a sheet.

    Attributes:
        seed: The seed that sampled the items, their orders and the keys.
        questions: The questions to the judges, each answered from 0 to `most`.
        texts: The origin of each text, by the text's key.
    """

    run: str
    seed: int
    questions: tuple[str, ...]
    most: int
    texts: Mapping[str, TextOrigin]

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(origin.system for origin in self.texts.values()))

    def write(self, file: Path) -> None:
        """Write the key to a file that only this user can read."""
        make_private(file, json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Key:
        """Read a key. Raises UserError if the file is not one."""
        if not require_path(file).is_file():
            raise UserError("there is no such file", where=str(file))
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            texts = {
                name: TextOrigin(str(origin["system"]), int(origin["seed"]), int(origin["item"]))
                for name, origin in stored["texts"].items()
            }
            questions, most = tuple(map(str, stored["questions"])), int(stored["most"])
            sound = stored["format"] == FORMAT and texts and questions and most >= 1
            if not sound or not all(map(_KEY.fullmatch, texts)):
                raise ValueError
            return cls(str(stored["run"]), int(stored["seed"]), questions, most, texts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            hint = "`subgraft judge make` writes one, where --key says."
            raise UserError("this is not the key of a blind sheet", where=str(file), hint=hint) from None


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
            raise ArgumentError("a question is empty", where="questions")
        if len(set(names)) < len(names):
            raise ArgumentError(
                "two columns would have one name", where="questions", hint=f"They are: {', '.join(names)}."
            )


def blind(material: Material, form: Form, items: int | None, seed: int) -> tuple[Key, dict[str, tuple[str, str]]]:
    """Sample the texts of a sheet, and hide their systems behind random keys.

    Every system contributes one text for each sampled source, from one of its seeds, which is sampled too.

    Args:
        items: How many sources to sample; if None 125, or all if there are fewer.

    Returns:
        The key of the sheet, and by each of its keys the source and the text.

    Raises:
        UserError: the systems have written fewer texts than `items`, or one has the name of the reference texts.
    """
    generator = random.Random(seed)
    names = list(dict.fromkeys(output.system for output in material.outputs))
    if REFERENCE in names:
        raise UserError(f"a system is named '{REFERENCE}'", where=material.run, hint="What people wrote is called so.")
    by_system = {name: [output for output in material.outputs if output.system == name] for name in names}
    by_system[REFERENCE] = [Outputs(REFERENCE, 0, material.references)]
    available = min(len(output.texts) for outputs in by_system.values() for output in outputs)
    count = min(available, 125) if items is None else items
    if count > available:
        hint = "Evaluations write as many for a class as evaluation.speed_sentences says."
        raise ArgumentError(f"{count} items are requested, but only {available} exist", where="items", hint=hint)
    sampled = sorted(generator.sample(range(available), count))
    keys = iter(generator.sample(range(16**8), len(by_system) * count))
    origins: dict[str, TextOrigin] = {}
    texts: dict[str, tuple[str, str]] = {}
    for item in sampled:
        for name, outputs in by_system.items():
            key, output = f"{next(keys):08x}", generator.choice(outputs)
            origins[key] = TextOrigin(name, output.seed, item)
            texts[key] = (material.sources[item], output.texts[item])
    return Key(material.run, seed, form.questions, form.most, origins), texts


def write_sheets(out: Path, key: Key, texts: Mapping[str, tuple[str, str]], judges: int) -> None:
    """Write a sheet judge-N.csv for each judge into the existing directory `out`, each in another order."""
    for judge in range(1, judges + 1):
        order = sorted(texts)
        random.Random(f"{key.seed} {judge}").shuffle(order)
        # With a byte order mark, by which spreadsheets recognise UTF-8.
        with (out / f"judge-{judge}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow([_cell(name) for name in (*COLUMNS, *key.questions)])
            writer.writerows([name, *map(_cell, texts[name]), *[""] * len(key.questions)] for name in order)


def _cell(text: str) -> str:
    """A cell that spreadsheets read as text, never as a formula (OWASP, CSV injection)."""
    return f"'{text}" if text.startswith(_FORMULA) else text
