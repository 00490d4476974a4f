"""The text of one side is found in every kind of source that has it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import TextSide
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.sources.side_text import named_sources, side_text

LANGUAGES = Languages(source="en", target="de")
ENGLISH, GERMAN = ["one house", "two houses"], ["ein Haus", "zwei Häuser"]


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with text of both languages, in all forms."""
    for split in ("train", "dev", "test"):
        write(tmp_path / "parallel" / f"{split}.en", ENGLISH)
        write(tmp_path / "parallel" / f"{split}.de", GERMAN)
    write(tmp_path / "only" / "train.de", GERMAN)
    write(tmp_path / "mono" / "en.txt", ENGLISH)
    write(tmp_path / "mono" / "de.txt", GERMAN)
    build(CorpusSource(folder="parallel"), LANGUAGES, Cleaning(drop_held_out=False), tmp_path / "built", base=tmp_path)
    return tmp_path


@pytest.mark.parametrize(("side", "expected"), [("source", ENGLISH), ("target", GERMAN)])
@pytest.mark.parametrize(
    "settings",
    [
        {"folder": "parallel"},
        {"folder": "built"},
        {"files": {"train": ["parallel/train.en", "parallel/train.de"]}},
        {"plain": {"folder": "mono", "languages": ["en", "de"]}},
        {"texts": {"en": {"files": {"train": ["mono/en.txt"]}}, "de": {"folder": "only"}}},
    ],
    ids=lambda settings: next(iter(settings)) + " " + str(next(iter(settings.values())))[:8],
)
def test_each_kind_gives_the_side_that_is_asked_for(
    settings: dict[str, Any], side: TextSide, expected: list[str], place: Path
) -> None:
    result = side_text(CorpusSource.model_validate(settings), side, LANGUAGES, place)
    assert list(result.read()) == expected
    assert result.size() == len(expected)


def test_a_generated_corpus_and_several_together(place: Path) -> None:
    law = CorpusSource(generated="law", limit={"train": 5})
    generated = side_text(law, "target", LANGUAGES, place)
    same = side_text(law, "source", Languages(source="de", target="en"), place)
    assert list(generated.read()) == list(same.read())
    parts = [{"folder": "only"}, {"files": {"train": ["mono/de.txt"]}}]
    together = side_text(CorpusSource.model_validate({"together": parts}), "target", LANGUAGES, place)
    assert list(together.read()) == GERMAN * 2


def test_a_pair_in_one_language_has_two_sides(place: Path) -> None:
    for side, lines in (("source", ENGLISH), ("target", ENGLISH[::-1])):
        write(place / "within" / f"train.{side}", lines)
    result = side_text(CorpusSource(folder="within"), "target", Languages(source="en", target="en"), place)
    assert list(result.read()) == ENGLISH[::-1]


def test_names_are_corpora_then_files_then_folders_of_files(place: Path) -> None:
    corpora = {"mono": CorpusSource(folder="only")}
    assert named_sources("mono", corpora, place, "here") == (corpora["mono"],)
    (place / "many").mkdir()
    (place / "many" / "b.gz").write_bytes(gzip.compress(b"zwei\n"))
    write(place / "many" / "a.txt", ["eins"])
    write(place / "many" / "notes.md", ["nothing"])
    result = [side_text(one, "target", LANGUAGES, place) for one in named_sources("many", corpora, place, "here")]
    assert [list(text.read()) for text in result] == [["eins"], ["zwei"]]
    (one,) = named_sources("parallel/train.de", corpora, place, "here")
    assert list(side_text(one, "target", LANGUAGES, place).read()) == GERMAN


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mno", "'mno' is neither one of corpora nor a file or folder\n  Nearest: mono"),
        ("mono/dee.txt", "Nearest: mono/de.txt"),
        ("parallel", "a folder without .txt or .gz files"),
        ("table.tsv", "a file of one segment a line was expected"),
    ],
)
def test_what_cannot_be_read_is_reported_with_what_is_near(name: str, message: str, place: Path) -> None:
    write(place / "table.tsv", ["a\tb"])
    with pytest.raises(UserError, match=message) as raised:
        named_sources(name, {"upstream": CorpusSource(folder="only")}, place, "downstream.text.target")
    assert str(raised.value).startswith("downstream.text.target")


def test_a_language_that_is_not_there_and_a_corpus_without_training_text(place: Path) -> None:
    with pytest.raises(UserError, match=r"train.*fr"):
        side_text(CorpusSource(folder="only"), "target", Languages(source="en", target="fr"), place)
    with pytest.raises(UserError, match="without a train split"):
        side_text(CorpusSource.model_validate({"files": {"dev": ["mono/de.txt"]}}), "target", LANGUAGES, place)
