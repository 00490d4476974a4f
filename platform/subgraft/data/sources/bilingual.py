"""Pairs of bilingual files, as CAT tools write them: translation memories in TMX 1.1 to 1.4b, and XLIFF 1.2 and 2.

Inline codes of the original format are left out: the elements that contain one, in TMX bpt, ept, it, ph and ut, with
their content. The text of other inline elements remains. Entities are not declared in such files, and a file that
declares some is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias
from xml.parsers import expat

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import find_file
from subgraft.data.sources.resolved_corpus import PairFilesSource, ResolvedSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Sides, pair_fields

Pair: TypeAlias = tuple[str, str]
Unit: TypeAlias = list[tuple[str, str]]  # the language and text of each variant

ENDINGS = (".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff")
# Inline elements whose content is a code of the original format.
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
# Elements of XLIFF with sources and targets of other texts: proposals and glossaries.
_PROPOSALS = frozenset({"alt-trans", "matches", "glossary"})
# XLIFF's states of a target that nobody has translated.
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})


class Bilingual(Settings):
    """bilingual: a bilingual file per split: a translation memory (TMX), or XLIFF."""

    bilingual: dict[Split, str] | None = None


def is_bilingual(path: Path) -> bool:
    """Whether a file is named like a bilingual one."""
    return path.name.lower().removesuffix(".gz").endswith(ENDINGS)


def read_pairs(path: Path, languages: Languages | None) -> tuple[Languages, list[Pair]]:
    """The languages and pairs of a bilingual file, one for each translation of a unit's source.

    Units without a translation are left out.

    Args:
        path: The file, plain or gzipped.
        languages: As in en and de, which also match en-US and de-AT; None for a file of two languages, in the direction
            that it names.

    Raises:
        UserError: The file is damaged, or has no pairs of these languages.
    """
    content = _read(path)
    names = list(dict.fromkeys(_base(language) for unit in content.units for language, _ in unit))
    pair = languages or _direction(names, content.source, path)
    pairs = [each for unit in content.units for each in _pairs(unit, pair)]
    if not pairs:
        known = ", ".join(names) or "none"
        hint = f"Its languages: {known}. Name two of them by `languages`."
        raise UserError(f"no unit is in {pair.source} and in {pair.target}", where=str(path), hint=hint)
    return pair, pairs


def _direction(names: Sequence[str], source: str, path: Path) -> Languages:
    if len(names) != 2:
        hint = "Name source and target by `languages`."
        raise UserError(f"the file is in {', '.join(names) or 'no language'}", where=str(path), hint=hint)
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


class _Content(Protocol):
    """The units of a file that have been read, and the source language that it names."""

    units: list[Unit]
    source: str

    def start(self, name: str, attributes: dict[str, str]) -> None: ...
    def end(self, name: str) -> None: ...
    def characters(self, text: str) -> None: ...


@dataclass
class _Tmx:
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
            self.unit.append((self.language, _one_line(self.text)))
            self.text = None
        elif name == "tu":
            self.units.append(self.unit)
        elif name in _CODES:
            self.codes -= 1

    def characters(self, text: str) -> None:
        if self.text is not None and not self.codes:
            self.text.append(text)


@dataclass
class _Xliff:
    """A unit is a segment of XLIFF 2, and in XLIFF 1.2 a `trans-unit`, or each segment that is marked in both sides.

    Attributes:
        texts: Of each side of the open unit, by the id of the marked segment, "" outside of one.
        marks: Whether each open `mrk` marks a segment.
    """

    units: list[Unit] = field(default_factory=list)
    source: str = ""
    target: str = ""
    translated: bool = True
    texts: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    side: str = ""
    segment: str = ""
    marks: list[bool] = field(default_factory=list)
    codes: int = 0
    proposals: int = 0  # open elements with other texts

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.proposals += name in _PROPOSALS
        if self.proposals:
            return
        if name in ("xliff", "file"):
            self.source = attributes.get("srcLang", attributes.get("source-language", self.source))
            self.target = attributes.get("trgLang", attributes.get("target-language", self.target))
        elif name in ("trans-unit", "segment"):
            self.texts, self.side = {}, ""
            self.translated = attributes.get("state") not in _UNTRANSLATED
        elif name in ("source", "seg-source", "target"):
            self.side, self.segment, self.codes, self.marks = name, "", 0, []
            self.translated &= attributes.get("state") not in _UNTRANSLATED
        elif name == "mrk":
            self.marks.append(attributes.get("mtype") == "seg")
            self.segment = attributes.get("mid", "") if self.marks[-1] else self.segment
        elif name in _CODES:
            self.codes += 1
        elif attributes.get("ctype") == "lb" or name == "cp":
            self.characters(" ")  # a line break, or a control character

    def end(self, name: str) -> None:
        self.proposals -= name in _PROPOSALS
        if self.proposals:
            return
        if name in ("trans-unit", "segment"):
            self.units += self._units() if self.translated else ()
        elif name in ("source", "seg-source", "target"):
            self.side = ""
        elif name == "mrk" and self.marks.pop():
            self.segment = ""
        elif name in _CODES:
            self.codes -= 1

    def characters(self, text: str) -> None:
        if self.side and not self.codes and not self.proposals:
            self.texts.setdefault(self.side, {}).setdefault(self.segment, []).append(text)

    def _units(self) -> Iterator[Unit]:
        target, marked = self.texts.get("target", {}), self.texts.get("seg-source", {})
        segments = [name for name in marked if name and name in target]
        if segments:
            pairs = [(marked[name], target[name]) for name in segments]
        else:
            sides = (self.texts.get(side, {}).values() for side in ("source", "target"))
            source, whole = ([part for parts in side for part in parts] for side in sides)
            pairs = [(source, whole)]
        for source, translation in pairs:
            yield [(self.source, _one_line(source)), (self.target, _one_line(translation))]


def _one_line(parts: Sequence[str]) -> str:
    return " ".join("".join(parts).split())


_FORMATS: Mapping[str, type[_Content]] = {"tmx": _Tmx, "xliff": _Xliff}


def _read(path: Path) -> _Content:
    parser = expat.ParserCreate()
    content: _Content | None = None

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal content
        local = name.rpartition(":")[2]
        if content is None:
            if local not in _FORMATS:
                hint = f"A bilingual file is one of {' or '.join(_FORMATS)}."
                raise UserError(f"the file's outermost element is <{name}>", where=str(path), hint=hint)
            content = _FORMATS[local]()
            parser.EndElementHandler = lambda name: content.end(name.rpartition(":")[2])
            parser.CharacterDataHandler = content.characters
        content.start(local, attributes)

    def refuse_entity(*declared: object) -> None:
        raise UserError("the file declares entities, which no bilingual file does", where=str(path))

    parser.StartElementHandler, parser.EntityDeclHandler = start, refuse_entity
    try:
        for raw in reading.raw_lines(path):
            parser.Parse(raw, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UserError(f"not well-formed XML: {error}", where=str(path)) from None
    assert content is not None  # well-formed XML has an outermost element
    return content


@dataclass(frozen=True)
class BilingualSource(PairFilesSource):
    """The pairs of one bilingual file per split."""

    languages: Languages
    _cache: dict[Split, list[Pair]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def _origin(self) -> dict[str, object]:
        return {"bilingual": self._file_digests, "languages": self.languages.name}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return iter(self._pairs(split))

    def _count_split(self, split: Split) -> int:
        return len(self._pairs(split))

    def _pairs(self, split: Split) -> list[Pair]:
        if split not in self._cache:
            self._cache[split] = read_pairs(self.files[split], self.languages)[1]
        return self._cache[split]


def _resolve(request: Request) -> ResolvedSource:
    files = {split: find_file(name, request.base) for split, name in request.settings.items()}
    return BilingualSource(pair_fields(request.pair, two=True), request.limit, files, request.pair)


BILINGUAL = SourceKind(name="bilingual", fields=Bilingual, resolve=_resolve, one_text=lambda settings: False)
