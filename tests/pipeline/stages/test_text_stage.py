"""Monolingual text of a task: cleaned, without the sentences of its pairs, and counted by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.runtime import Runtime
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.orchestration.store.events import EventLog, StageContext
from subgraft.pipeline.compute.corpora import import_text
from subgraft.pipeline.stages.corpora import TextStage
from toys import english, german

LANGUAGES = Languages(source="en", target="de")
MORE = german(60, 9)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def pairs(place: Path) -> Path:
    for seed, (split, size) in enumerate((("train", 80), ("dev", 20), ("test", 20)), 1):
        write(place / "pairs" / f"{split}.en", english(size, seed))
        write(place / "pairs" / f"{split}.de", german(size, seed))
    build(CorpusSource(folder="pairs"), LANGUAGES, Cleaning(), place / "corpus", base=place)
    return place / "corpus"


def recipe(place: Path, **files: str) -> TextStage:
    sources: dict[Any, Any] = {side: (CorpusSource(files={"train": (name,)}),) for side, name in files.items()}
    identities: dict[Any, Any] = dict.fromkeys(files, ())
    return TextStage(identities=identities, languages=LANGUAGES, cleaning=Cleaning(), sources=sources, base=place)


def made(place: Path, asked: TextStage) -> tuple[Corpus, dict[str, Any], list[str]]:
    """The corpus, the stage's summary, and its warnings."""
    (place / "out").mkdir()
    log = EventLog(place / "events.jsonl")
    summary = import_text(asked, {"corpus": pairs(place)}, place / "out", StageContext(place, Runtime(), log))
    warned = (place / "events.jsonl").read_text() if (place / "events.jsonl").exists() else ""
    return Corpus.open(place / "out"), summary, [line for line in warned.splitlines() if "warned" in line]


def test_what_the_pairs_have_is_dropped_and_counted(tmp_path: Path) -> None:
    in_train, in_test = german(80, 1)[:7], german(20, 3)[:3]
    write(tmp_path / "more.txt", [*MORE, *in_train, *in_test, *MORE[:5], "x" * 2000, "  ", f"  {MORE[0]} "])
    corpus, summary, warned = made(tmp_path, recipe(tmp_path, target="more.txt"))
    assert list(corpus.lines("train", "target")) == MORE
    assert summary["target"] == {
        "read": 78,
        "kept": 60,
        "held_out": 3,
        "elsewhere": 7,
        "duplicate": 6,
        "too_long": 1,
        "too_short": 1,
        "characters": sum(map(len, MORE)),
    }
    assert not corpus.aligned
    assert [(field.name, field.language) for field in corpus.fields] == [("target", "de")]
    assert corpus.size("train", "source") == 0
    assert not warned, "three lines are less than a tenth of dev and test"


def test_both_sides_have_segments_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "en.txt", english(30, 8))
    write(tmp_path / "de.txt", MORE)
    corpus, summary, _ = made(tmp_path, recipe(tmp_path, source="en.txt", target="de.txt"))
    assert corpus.size("train", "source") == summary["source"]["kept"] == 30
    assert corpus.size("train", "target") == summary["target"]["kept"] == 60
    assert corpus.size("train") == 90


def test_text_that_contains_the_test_set_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "more.txt", [*MORE, *german(20, 3)])
    corpus, summary, warned = made(tmp_path, recipe(tmp_path, target="more.txt"))
    assert summary["target"]["held_out"] == 20
    assert set(corpus.lines("train", "target")).isdisjoint(german(20, 3))
    (line,) = warned
    assert "downstream.text.target has 20 lines of the task's dev and test splits, which have 40" in line


def test_test_lines_are_found_however_they_are_typed_and_in_text_of_either_side(tmp_path: Path) -> None:
    german_tests, english_tests = german(20, 3), english(20, 3)
    typed = [
        german_tests[0].replace(" ", "  "),
        german_tests[1].replace(" ", "\u00a0"),
        german_tests[2].upper(),
        german_tests[3].rstrip("."),
        f"{german_tests[4]} …",
        *english_tests[:8],
    ]
    write(tmp_path / "more.txt", [*MORE, *typed])
    corpus, summary, _ = made(tmp_path, recipe(tmp_path, target="more.txt"))
    assert list(corpus.lines("train", "target")) == MORE
    assert summary["target"]["held_out"] == len(typed)


def test_nothing_left_and_undecodable_bytes_are_mistakes_of_the_user(tmp_path: Path) -> None:
    write(tmp_path / "known.txt", german(20, 2))
    with pytest.raises(UserError, match=r"text\.target: cleaning leaves nothing of the text .*held_out: 20"):
        made(tmp_path, recipe(tmp_path, target="known.txt"))
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "more.txt").write_bytes("gut\nHäuser\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"more\.txt:2: not UTF-8"):
        made(tmp_path / "latin", recipe(tmp_path / "latin", target="more.txt"))


def test_text_of_the_other_side_is_refused_with_a_line_of_it(tmp_path: Path) -> None:
    lines = english(60, 9)
    write(tmp_path / "more.txt", lines)
    with pytest.raises(
        UserError, match=r"looks like the source of the pairs \(en\), not like the target \(de\)"
    ) as refused:
        made(tmp_path, recipe(tmp_path, target="more.txt"))
    assert any(line in str(refused.value) for line in lines)
    assert "swapped?" in str(refused.value)


def test_text_that_is_like_neither_side_is_taken_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "more.txt", ["Kaikki ihmiset syntyvät vapaina.", "Heille on annettu järki ja omatunto."])
    corpus, _, warned = made(tmp_path, recipe(tmp_path, target="more.txt"))
    assert corpus.size("train") == 2
    (line,) = warned
    assert "downstream.text.target does not look like the target of the pairs (de), as in: " in line
