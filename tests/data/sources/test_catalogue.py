"""Listing, checking and getting corpora."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.catalogue import available, check, get
from subgraft.data.sources.registry import CorpusSource, resolve

EN_FR = Languages(source="en", target="fr")


def fill(folder: Path, target: str = "un chat\nune souris\n") -> CorpusSource:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.en").write_text("a cat\na mouse\n", encoding="utf-8")
    (folder / "train.fr").write_text(target, encoding="utf-8")
    return CorpusSource(folder=str(folder))


def test_built_in_domains_are_always_there() -> None:
    assert [(result.name, result.kind, result.languages) for result in available(None)] == [
        ("everyday", "generated", ("en", "de")),
        ("law", "generated", ("en", "de")),
    ]


def test_folders_of_split_files_are_listed_and_others_not(tmp_path: Path) -> None:
    fill(tmp_path / "pairs" / "cats")
    (tmp_path / "mono").mkdir()
    (tmp_path / "mono" / "en.txt").touch()
    (tmp_path / "train.json").touch()
    (result,) = available(tmp_path)[2:]
    assert (result.name, result.kind, result.languages, result.segments) == (
        "pairs/cats",
        "folder",
        ("en", "fr"),
        {"train": 2},
    )
    with pytest.raises(UserError, match="does not exist"):
        available(tmp_path / "absent")


def test_check_counts_what_a_source_holds(tmp_path: Path) -> None:
    english, french = check(fill(tmp_path), EN_FR, tmp_path)
    assert (english.split, english.language, english.segments, english.words, english.characters) == (
        "train",
        "en",
        2,
        4,
        12,
    )
    assert french.mean_characters == (7 + 10) / 2
    assert french.sha256 == hashlib.sha256(b"un chat\nune souris\n").hexdigest()
    assert not french.declared


def test_check_compares_with_a_manifest_above(tmp_path: Path) -> None:
    source = fill(tmp_path / "cats")
    digests = {name: hashlib.sha256((tmp_path / "cats" / name).read_bytes()).hexdigest() for name in ("train.en",)}
    manifest = tmp_path / "MANIFEST.tsv"
    manifest.write_text(f"file\tsha256\ncats/train.en\t{digests['train.en']}\n", encoding="utf-8")
    assert [side.declared for side in check(source, EN_FR, tmp_path)] == [True, False]
    manifest.write_text(f"file\tsha256\ncats/train.en\t{'0' * 64}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.en: the file has SHA-256 .*\n.*Fetch the file again"):
        check(source, EN_FR, tmp_path)


def test_get_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    corpus = get(fill(tmp_path / "in"), EN_FR, Cleaning(), tmp_path / "made" / "out")
    assert list(corpus.pairs("train")) == [("a cat", "un chat"), ("a mouse", "une souris")]
    assert corpus.directory == tmp_path / "made" / "out"
    assert stat.S_IMODE(corpus.directory.stat().st_mode) & 0o555 == 0o555
    with pytest.raises(UserError, match="not an empty folder"):
        get(fill(tmp_path / "in"), EN_FR, Cleaning(), tmp_path / "made" / "out")
    with pytest.raises(UserError, match="unequal"):
        get(fill(tmp_path / "in", "seul\n"), EN_FR, Cleaning(), tmp_path / "made" / "bad")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["out"]


def test_get_refuses_what_check_refuses(tmp_path: Path) -> None:
    source = fill(tmp_path / "data" / "cats")
    (tmp_path / "data" / "MANIFEST.tsv").write_text(f"file\tlines\tsha256\ncats/train.fr\t2\t{'0' * 64}\n")
    with pytest.raises(UserError, match="the file has SHA-256") as checked:
        check(source, EN_FR, tmp_path)
    with pytest.raises(UserError) as got:
        get(source, EN_FR, Cleaning(), tmp_path / "new" / "out", base=tmp_path)
    assert str(got.value) == str(checked.value)
    assert not (tmp_path / "new").exists()


def test_check_counts_characters_that_nobody_sees(tmp_path: Path) -> None:
    source = fill(tmp_path, "\ufeffun\x00 ch\x00at\nune\u202e sou\ufeffris\u2028\u2066\n")
    english, french = check(source, EN_FR, tmp_path)
    assert english.unseen == {}
    assert {kind.split()[0]: count for kind, count in french.unseen.items()} == {
        "NUL": 2,
        "byte": 2,
        "controls": 2,
        "line": 1,
    }


def test_folders_of_other_kinds_are_listed_as_what_they_hold(tmp_path: Path) -> None:
    for folder, name, text in (
        ("labels", "train.jsonl", '{"text": "good", "label": "pos"}\n{"text": "bad", "label": "neg"}\n'),
        ("docs", "dev.jsonl", '{"document": "a", "en": ["one", "two"], "fr": ["un", "deux"]}\n'),
        ("verses", "Zulu.tsv", "b.MAT.1.1\tuno\n"),
        ("mono", "sw.txt", "habari\n"),
        ("tagged", "all.txt", "sw\thabari\nzu\tsawubona\n"),
        ("other", "train.jsonl", '{"words": 3}\n'),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text, encoding="utf-8")
    listed = {result.name: result for result in available(tmp_path)[2:]}
    assert {
        name: (result.kind, result.languages, result.fields, result.documents) for name, result in listed.items()
    } == {
        "docs": ("records", ("en", "fr"), (), True),
        "labels": ("records", ("und",), ("label",), False),
        "mono": ("plain", ("sw",), (), False),
        "tagged": ("plain", ("sw", "zu"), (), False),
        "verses": ("verses", ("Zulu",), (), True),
    }
    assert listed["labels"].segments == {"train": 2}


def test_check_shows_labels_and_documents(tmp_path: Path) -> None:
    lines = [{"document": name, "en": ["a", "b"], "topic": topic} for name, topic in (("x", "law"), ("y", "art"))]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    fields = {"en": {}, "topic": {"kind": "label"}}
    source = CorpusSource.model_validate({"records": {"folder": ".", "fields": fields, "document": "document"}})
    text, label = check(source, None, tmp_path)
    assert (text.field, text.language, text.segments, text.words, text.documents) == ("en", "en", 4, 4, 2)
    assert label.classes == {"art": 2, "law": 2}


@pytest.mark.data
def test_the_real_corpora_are_listed_and_sound(mirror: Path) -> None:
    listed = {result.name: result for result in available(mirror)}
    assert listed["en-fr/itdocs"].segments == {"train": 15_576, "dev": 1_000, "test": 1_000}
    assert listed["en-zh/tatoeba"].languages == ("en", "zh")
    checked = check(CorpusSource(folder=str(mirror / "en-fr/itdocs")), EN_FR, mirror)
    assert len(checked) == 6
    assert all(side.declared for side in checked)
    assert listed["documents/new-testament"].kind == "verses"
    assert len(listed["documents/new-testament"].languages) == 46
    assert listed["labels/pros-cons"].segments == {"train": 32_005, "dev": 4_000, "test": 4_000}
    assert listed["documents/en-fr-itdocs"].documents
    assert len(listed["mono/udhr"].languages) > 300


def test_what_get_makes_can_be_asked_for_as_a_folder(tmp_path: Path) -> None:
    limit = {"train": 30, "dev": 5, "test": 5}
    source = CorpusSource(generated="law", limit=limit)  # type: ignore[arg-type]
    languages = Languages(source="en", target="de")
    made = get(source, languages, Cleaning(), tmp_path / "law")
    again = resolve(CorpusSource(folder="law"), languages, tmp_path)
    assert list(again.read("train")) == list(made.pairs("train"))
