"""Names and sentences are in the words of the field.

Names are those that Python code binds: modules, functions, classes, arguments, variables, attributes. Prose is
comments, docstrings, messages, pages, and the names of tests, which are sentences.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

THIS = Path(__file__).name
NAMES = {
    "told",
    "tells",
    "beside",
    "given",
    "kept",
    "found",
    "beginnings",
    "whoever",
    "rivals",
    "unspelled",
    "outlook",
    "likeness",
    "anew",
    "luck",
}
NAMES_IN_WHOLE = {"put_right", "made_text", "taken_over", "tables_first", "rows_first", "text_share"}
PROSE = {
    r"told": "reported, described, passed",
    r"tells": "shows, reports",
    r"tell\w* apart": "distinguish",
    r"beside": "in addition to, next to",
    r"whoever": "the process, user or caller",
    r"of what": "the thing's noun",
    r"(begin|begins|began|begun) as": "is initialised as, starts from",
    r"beginnings": "starting points, upstream steps",
    r"luck": "chance",
    r"anew": "again",
    r"put right": "correct",
    r"one's own": "your own",
    r"that which": "the thing's noun",
    r"what is (kept|given|said|made|told|left|written|done|meant|found)": "the thing's noun",
    r"what (was|were) (kept|given|said|made|told|left|written|done|meant|found)": "the thing's noun",
    r"(?<!\bthere\s)(?<!where\s)is no (?!longer|more|one)\w+": "is not a",
    r"(?<!\bthere\s)(?<!where\s)are no (?!longer|more)\w+": "are not",
    r"holds? no": "contains no",
    r"(come|comes|came) to": "reaches, adds up to",
    r"(says?|said) of": "describes",
    r"as (it|they) (is|are) told": "as configured",
}
FOLDERS = ("platform", "jobs", "benchmarks", "studies", "docs", "configs", "tests")
_PROSE = re.compile("|".join(rf"\b{phrase}\b" for phrase in PROSE).replace(" ", r"\s+"), re.IGNORECASE)


def test_words_of_the_field(repository: Path) -> None:
    uses = _uses(repository)
    too_many = []
    for folder in sorted(uses):
        for kind, places in zip(("names", "prose"), uses[folder], strict=True):
            if places:
                too_many.append(f"{folder}: {len(places)} in {kind}\n  " + "\n  ".join(places[:20]))
    plain = "\n".join(f"  {phrase}: {words}" for phrase, words in PROSE.items())
    assert not too_many, "\n".join(["words that are not the field's:", *too_many, "instead:", plain])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kept_rows = 1", ["kept_rows"]),
        ("def find(*, given): ...", ["given"]),
        ("class CompetingRivals: ...", ["CompetingRivals"]),
        ("not_found = FileNotFoundError", []),
        ("def test_nothing_is_told(kept): ...", ["kept", "told"]),
        ("x = 1  # told apart: 1", ["told"]),
        ("raise ValueError('the file is no tensor')", ["is no tensor"]),
        ("raise ValueError(f'there is no file {x}, given {y}')", []),
        ("keys = ['told', 'kept']", []),
    ],
)
def test_what_counts_as_a_word(line: str, words: list[str]) -> None:
    names, prose = _words(line)
    assert [word for _, word in (*names, *prose)] == words


def _uses(repository: Path) -> dict[str, tuple[list[str], list[str]]]:
    """By folder, the places of words in names and in prose."""
    uses: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for path in _files(repository):
        relative = path.relative_to(repository)
        depth = {"platform": 3, "tests": 2}.get(relative.parts[0], 1)
        names, prose = uses["/".join(relative.parent.parts[:depth]) or "."]
        text = path.read_text(encoding="utf-8")
        bound, sentences = _words(text, path.stem) if path.suffix == ".py" else ([], list(_matches(text)))
        names += (f"{relative}:{line} {word}" for line, word in bound)
        prose += (f"{relative}:{line} {word}" for line, word in sentences)
    return uses


def _files(repository: Path) -> Iterator[Path]:
    yield from (repository / name for name in ("README.md", "CONTRIBUTING.md"))
    for folder in FOLDERS:
        for suffix in ("py", "md", "yaml", "html", "j2", "js"):
            yield from sorted(path for path in (repository / folder).rglob(f"*.{suffix}") if path.name != THIS)


Places = list[tuple[int, str]]


def _words(source: str, module: str = "") -> tuple[Places, Places]:
    """The words of Python code in names and in prose, each with its line."""
    names = [(line, name) for line, name in ((1, module), *_bound(ast.parse(source))) if _is_private(name)]
    return names, [place for line, text in _texts(source) for place in _matches(text, line)]


def _is_private(name: str) -> bool:
    if name.startswith("test_"):  # a sentence
        return False
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    words = {word.lower() for before, word in zip(["", *parts], parts, strict=False) if before.lower() != "not"}
    return bool(words & NAMES) or any(part in name.lower() for part in NAMES_IN_WHOLE)


def _bound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Comments, strings of more than a word, and the names of tests."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield token.start[0], token.string
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " ")


def _matches(text: str, line: int = 1) -> Iterator[tuple[int, str]]:
    for match in _PROSE.finditer(text):
        yield line + text.count("\n", 0, match.start()), " ".join(match[0].split())
