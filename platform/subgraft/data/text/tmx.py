"""Pairs of a translation memory in TMX 1.1 to 1.4b, plain or gzipped, as CAT tools write them.

Inline elements with codes of the original format (bpt, ept, it, ph, ut) are left out with their content, highlighted
text (hi) remains. Entities are not declared in memories, and a file that declares some is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from xml.parsers import expat

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.data.text import reading

Pair: TypeAlias = tuple[str, str]
Unit: TypeAlias = list[tuple[str, str]]  # the language and text of each variant

_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


def is_tmx(path: Path) -> bool:
    """Whether a file is named like a translation memory."""
    return path.name.lower().removesuffix(".gz").endswith(".tmx")


def read_tmx(path: Path, languages: Languages | None) -> tuple[Languages, list[Pair]]:
    """The languages and pairs of a memory, one for each translation of a unit's source. Other units are left out.

    languages: as in en and de, which also match en-US and de-AT; None for a memory of two languages, in the direction
    that its header names. Raises UserError for a damaged file, or one without pairs of these languages.
    """
    memory = _read(path)
    names = list(dict.fromkeys(_base(language) for unit in memory.units for language, _ in unit))
    pair = languages or _direction(names, memory.source, path)
    pairs = [each for unit in memory.units for each in _pairs(unit, pair)]
    if not pairs:
        known = ", ".join(names) or "none"
        hint = f"Its languages: {known}. Name two of them by `languages`."
        raise UserError(f"no unit is in {pair.source} and in {pair.target}", where=str(path), hint=hint)
    return pair, pairs


def _direction(names: Sequence[str], source: str, path: Path) -> Languages:
    if len(names) != 2:
        hint = "Name source and target by `languages`."
        raise UserError(f"the memory is in {', '.join(names) or 'no language'}", where=str(path), hint=hint)
    first = _base(source) if _base(source) in names else names[0]
    return Languages(source=first, target=next(name for name in names if name != first))


def _pairs(unit: Unit, languages: Languages) -> Iterator[Pair]:
    source = next((text for language, text in unit if _base(language) == _base(languages.source) and text), "")
    targets = (text for language, text in unit if _base(language) == _base(languages.target) and text != source)
    if source:
        yield from ((source, target) for target in dict.fromkeys(targets) if target)


def _base(language: str) -> str:
    """The language without its region or script: en of en-US, en_XX and eng_Latn stays eng."""
    return language.replace("_", "-").partition("-")[0].lower()


@dataclass
class _Memory:
    """The parts of a memory that have been read, and the elements that are open."""

    units: list[Unit] = field(default_factory=list)
    source: str = ""
    unit: Unit = field(default_factory=list)
    language: str = ""
    text: list[str] | None = None  # of an open segment
    codes: int = 0  # open elements with codes

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "header":
            self.source = attributes.get("srclang", "")
        elif name == "tu":
            self.unit = []
        elif name == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self.text, self.codes = [], 0
        elif name in _CODES:
            self.codes += 1

    def end(self, name: str) -> None:
        if name == "seg" and self.text is not None:
            self.unit.append((self.language, " ".join("".join(self.text).split())))
            self.text = None
        elif name == "tu":
            self.units.append(self.unit)
        elif name in _CODES:
            self.codes -= 1

    def characters(self, text: str) -> None:
        if self.text is not None and not self.codes:
            self.text.append(text)


def _read(path: Path) -> _Memory:
    memory, parser = _Memory(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = memory.start, memory.end
    parser.CharacterDataHandler = memory.characters

    def refuse_entity(*declared: object) -> None:
        raise UserError("the file declares entities, which no memory does", where=str(path))

    parser.EntityDeclHandler = refuse_entity
    try:
        for raw in reading.raw_lines(path):
            parser.Parse(raw, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UserError(f"not well-formed XML: {error}", where=str(path)) from None
    return memory
