"""Names of Python, such as os.path.join, as entities of Python's documentation: what configs/knowledgeable.yaml reads.

    python studies/python_names.py $SUBGRAFT_DATA/documents/en-fr-itdocs configs/knowledgeable

Reads {train,dev,test}.jsonl[.gz] with documents of English lines, and writes

    graph.tsv                       os.path.join, `part of`, os.path: a triple for each name of the text and its parts
    texts/{train,dev}.jsonl         lines with their document and the names in them
    typed/{train,dev,test}.jsonl    lines with a name and its types: module, class, exception, function, method, value

Types are those of the running Python; names that it lacks, as of other packages, are entities without types. Names are
entities if the training text has them `--least` times or more: most others are made up in examples.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.data.text import reading

SPLITS = ("train", "dev", "test")
LANGUAGE = "en"
_NAME = re.compile(r"(?<![\w./-])[A-Za-z_]\w+(?:\.\w+)*\.[A-Za-z_]\w+(?![\w/-])")
# The ends of names of files and hosts.
_NO_NAMES = frozenset(
    {"py", "pyc", "exe", "org", "com", "net", "cfg", "ini", "txt", "html", "xml", "zip", "log", "h", "c"}
)
# Modules that do something when they are imported.
_NOT_IMPORTED = frozenset({"antigravity", "this", "idlelib", "test", "turtledemo", "lib2to3", "__main__"})


def names_in(line: str) -> list[tuple[int, int, str]]:
    """The dotted names of a line, each with its span in characters."""
    matches = ((match.start(), match.end(), match.group()) for match in _NAME.finditer(line))
    return [each for each in matches if each[2].rpartition(".")[2] not in _NO_NAMES]


def parts(name: str) -> list[tuple[str, str]]:
    """Each part of a name with what it is part of: os.path.join with os.path, os.path with os."""
    words = name.split(".")
    return [(".".join(words[:size]), ".".join(words[: size - 1])) for size in range(len(words), 1, -1)]


@cache
def types_of(name: str) -> tuple[str, ...]:
    """The types of the object that a name has in the running Python; none if it has no such name."""
    first = name.partition(".")[0]
    module = first if first in sys.stdlib_module_names else "builtins"
    warnings.simplefilter("ignore", DeprecationWarning)
    if first in _NOT_IMPORTED:
        return ()
    try:
        owner, value = None, importlib.import_module(module)
        for word in name.split(".")[int(module != "builtins") :]:
            owner, value = value, _member(value, word)
    except (ImportError, AttributeError):
        return ()
    return _types(owner, value)


def _member(value: Any, word: str) -> Any:
    """An attribute of an object, or a module of a package that is still to be imported."""
    if not hasattr(value, word) and inspect.ismodule(value):
        return importlib.import_module(f"{value.__name__}.{word}")
    return getattr(value, word)


def _types(owner: Any, value: Any) -> tuple[str, ...]:
    if inspect.ismodule(value):
        return ("module",)
    if inspect.isclass(value):
        return ("class", "exception") if issubclass(value, BaseException) else ("class",)
    if callable(value):
        return ("method",) if inspect.isclass(owner) else ("function",)
    return ("value",)


def documents(folder: Path, split: str) -> Iterator[tuple[str, Sequence[str]]]:
    """The documents of a split with their lines. Raises UserError for other files."""
    files = [path for ending in ("jsonl", "jsonl.gz") if (path := folder / f"{split}.{ending}").is_file()]
    if not files:
        raise UserError(f"no {split}.jsonl or {split}.jsonl.gz here", where=str(folder))
    for number, line in enumerate(reading.json_lines(files[0]), 1):
        record = json.loads(line)
        if not isinstance(record, dict) or not {"document", LANGUAGE} <= record.keys():
            raise UserError(f"expected the fields document and {LANGUAGE}", where=f"{files[0]}:{number}")
        yield str(record["document"]), [text.strip() for text in record[LANGUAGE]]


def write(source: Path, folder: Path, least: int) -> None:
    texts = {split: list(documents(source, split)) for split in SPLITS}
    counts = Counter(name for _, lines in texts["train"] for line in lines for _, _, name in names_in(line))
    entities = {name for name, count in counts.items() if count >= least}
    triples = sorted({(part, "part of", whole) for name in entities for part, whole in parts(name)})
    for name in ("texts", "typed"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "graph.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    for split, of_split in texts.items():
        if split != "test":
            _write(folder / "texts" / f"{split}.jsonl", _annotated(of_split, entities))
        _write(folder / "typed" / f"{split}.jsonl", _typed(of_split))


def _annotated(texts: Sequence[tuple[str, Sequence[str]]], entities: set[str]) -> Iterator[dict[str, Any]]:
    for document, lines in texts:
        for line in lines:
            spans = [span for span in names_in(line) if span[2] in entities]
            yield {"document": document, LANGUAGE: line, "entities": spans}


def _typed(texts: Sequence[tuple[str, Sequence[str]]]) -> Iterator[dict[str, Any]]:
    for _, lines in texts:
        for line in lines:
            for start, end, name in names_in(line):
                if types_of(name):
                    yield {"text": line, "entity": [start, end], "labels": list(types_of(name))}


def _write(path: Path, records: Iterator[dict[str, Any]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder of documents")
    parser.add_argument("folder", type=Path, help="where the corpora are written")
    parser.add_argument(
        "--least", type=int, default=2, help="occurrences of an entity in the training text (default 2)"
    )
    arguments = parser.parse_args()
    try:
        write(arguments.source, arguments.folder, arguments.least)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
