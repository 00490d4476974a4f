"""Names of Python as entities of text, their types, and what the shipped configuration reads of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from python_names import names_in, parts, types_of, write
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.contrib.ernie_thu.transe import Triples
from subgraft.data.sources.registry import resolve

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "knowledgeable.yaml"


def test_names_are_dotted_and_no_files_hosts_or_abbreviations() -> None:
    line = "Call os.path.join(a, b.c), e.g. on str.format; see setup.py, www.python.org and a/b.txt."
    assert [name for _, _, name in names_in(line)] == ["os.path.join", "str.format"]
    assert all(line[start:end] == name for start, end, name in names_in(line))
    assert parts("os.path.join") == [("os.path.join", "os.path"), ("os.path", "os")]


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("os.path", ("module",)),
        ("os.path.join", ("function",)),
        ("str.format", ("method",)),
        ("sys.path", ("value",)),
        ("email.message.EmailMessage", ("class",)),
        ("asyncio.TimeoutError", ("class", "exception")),
        ("os.no_such_name", ()),
        ("numpy.array", ()),
        ("antigravity.geohash", ()),
    ],
)
def test_types_are_those_of_the_running_python(name: str, types: tuple[str, ...]) -> None:
    assert types_of(name) == types


def test_the_shipped_configuration_reads_these_files(tmp_path: Path) -> None:
    source, folder = tmp_path / "documents", tmp_path / "knowledgeable"
    source.mkdir()
    lines = [" Use os.path.join with sys.path. ", "The function os.path.join is old.", "No name."]
    for split in ("train", "dev", "test"):
        record = {"document": f"{split}.po", "en": [*lines, f"In {split} sys.path is a value."]}
        (source / f"{split}.jsonl").write_text(json.dumps(record) + "\n")
    write(source, folder, least=2)
    graph = Triples.read(folder / "graph.tsv")
    assert graph.entities == ("os", "os.path", "os.path.join", "sys", "sys.path") and graph.relations == ("part of",)
    corpora = load(CONFIG, Experiment).corpora
    texts = resolve(corpora["documentation"], Languages(source="en", target="en"), tmp_path)
    assert texts.documented and texts.splits == ("train", "dev")
    text, spans, place = next(iter(texts.read("train")))
    named = [(text.strip()[start:end], name) for start, end, name in json.loads(spans)]
    assert named == [("os.path.join",) * 2, ("sys.path",) * 2] and place == "train.po\t0"
    typed = resolve(corpora["types"], Languages(source="en", target="en"), tmp_path)
    assert typed.splits == ("train", "dev", "test") and typed.size("train") == 4
    with pytest.raises(UserError, match=r"no train\.jsonl"):
        write(tmp_path, folder, least=2)
