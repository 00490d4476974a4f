"""Translations of one book: aligned by verse id, split by book, with chapters or books as documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.text import reading
from subgraft.data.text.fields import Run

LENIENT = Cleaning(deduplicate=False, drop_held_out=False, max_ratio=None)
ENGLISH = ("MAT.1.1", "MAT.1.2", "MAT.1.3", "MAT.2.1", "MAT.2.2", "MRK.1.1")
FRENCH = ("MAT.1.1", "MAT.1.3", "MAT.2.1", "MAT.2.2", "MRK.1.1", "MRK.1.2")


def written(folder: Path, **settings: object) -> CorpusSource:
    for name, result in (("English", ENGLISH), ("French", FRENCH)):
        text = "".join(f"b.{verse}\t{name} {verse}\n" for verse in result)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    translations = {"en": "English", "fr": "French"}
    columns = {"folder": str(folder), "translations": translations, "test": ["MRK"], **settings}
    return CorpusSource.model_validate({"verses": columns})


def test_verses_are_aligned_by_id_and_what_is_missing_leaves_gaps(tmp_path: Path) -> None:
    corpus = build(written(tmp_path), Languages(source="fr", target="en"), LENIENT, tmp_path / "out")
    train = list(corpus.pairs("train"))
    assert [source.partition(" ")[2] for source, _ in train] == ["MAT.1.1", "MAT.1.3", "MAT.2.1", "MAT.2.2"]
    assert all(source.replace("French", "English") == target for source, target in train)
    assert list(corpus.documents("train")) == [Run("MAT.1", 0, 1), Run("MAT.1", 1, 2), Run("MAT.2", 2, 4)]
    assert list(corpus.pairs("test")) == [("French MRK.1.1", "English MRK.1.1")]
    assert corpus.counts["train"]["unaligned"] == 2
    assert (corpus.counts["train"]["documents"], corpus.counts["train"]["broken"]) == (2, 1)


def test_books_go_on_from_chapter_to_chapter(tmp_path: Path) -> None:
    source = written(tmp_path, documents="book", translations={"en": "English"})
    corpus = build(source, None, LENIENT, tmp_path / "out")
    assert [field.name for field in corpus.fields] == ["en"]
    assert list(corpus.documents("train")) == [Run("MAT", 0, 5)]


def test_a_chapter_that_is_missing_is_a_gap_in_a_book(tmp_path: Path) -> None:
    source = written(tmp_path, documents="book", translations={"en": "English"}, test=[])
    (tmp_path / "English.tsv").write_text("b.MAT.1.1\ta\nb.MAT.3.1\tb\nb.MAT.3.2\tc\n", encoding="utf-8")
    corpus = build(source, None, LENIENT, tmp_path / "out")
    assert list(corpus.documents("train")) == [Run("MAT", 0, 1), Run("MAT", 1, 3)]


def test_translations_that_are_not_aligned_keep_all_their_verses(tmp_path: Path) -> None:
    corpus = build(written(tmp_path, aligned=False), None, LENIENT, tmp_path / "out")
    assert not corpus.aligned
    assert {name: corpus.size("train", name) for name in ("en", "fr")} == {"en": 5, "fr": 4}
    assert list(corpus.documents("train", "fr")) == [Run("MAT.1", 0, 1), Run("MAT.1", 1, 2), Run("MAT.2", 2, 4)]
    assert [(language, len(list(lines))) for language, lines in corpus.texts("test")] == [("en", 1), ("fr", 2)]
    for ask in (lambda: corpus.pairs("train"), lambda: corpus.records("train"), lambda: corpus.documents("train")):
        with pytest.raises(UserError, match="not parallel"):
            ask()


def test_ranges_and_empty_verses_are_left_out_and_counted(tmp_path: Path) -> None:
    source = written(tmp_path, translations={"en": "English"}, test=[])
    lines = ("b.MAT.1.1\ta", "b.MAT.1.2-b.MAT.1.3\tb", "b.MAT.1.4-5\tc", "b.MAT.1.6\t ", "b.MAT.1.7\td")
    (tmp_path / "English.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = build(source, None, LENIENT, tmp_path / "out")
    assert list(corpus.lines("train", "en")) == ["a", "d"]
    assert (corpus.counts["train"]["verse_ranges"], corpus.counts["train"]["empty_verses"]) == (2, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("MAT 1:2\ttext", r"English\.tsv:2: no verse id and text: 'MAT 1:2"),
        ("b.MAT.1.2", r"English\.tsv:2: no verse id and text"),
        ("b.MAT.1.1\ttwice", r"English\.tsv:2: b\.MAT\.1\.1 comes twice, or too late"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    source = written(tmp_path, translations={"en": "English"}, test=[])
    (tmp_path / "English.tsv").write_text(f"b.MAT.1.1\ta\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        build(source, None, LENIENT, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_not_there_is_reported(tmp_path: Path) -> None:
    source = written(tmp_path, translations={"en": "English", "de": "German"})
    with pytest.raises(UserError, match=r"no such file: German\.tsv\[\.gz\]\n.*English\.tsv, French\.tsv"):
        resolve(source, None, tmp_path)
    with pytest.raises(UserError, match=r"no verse of the book 'LUK' in all translations\n.*MAT, MRK"):
        build(written(tmp_path, dev=["LUK"]), None, LENIENT, tmp_path / "out")


def test_translations_in_another_order_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path, test=[])
    (tmp_path / "French.tsv").write_text("b.MRK.1.1\ta\nb.MAT.1.1\tb\n", encoding="utf-8")
    with pytest.raises(UserError, match="verses in another order"):
        build(source, None, LENIENT, tmp_path / "out")


@pytest.mark.data
def test_the_real_new_testament(mirror: Path, tmp_path: Path) -> None:
    """Translations of very different languages agree on most verses, and every chapter is a document."""
    translations = {"sw": "Swahili-NT", "zu": "Zulu-NT", "eu": "Basque-NT"}
    folder = str(mirror / "documents" / "new-testament")
    settings = {"folder": folder, "translations": translations, "dev": ["MAR"], "test": ["LUK"]}
    source = CorpusSource.model_validate({"verses": settings})
    every = build(source, None, LENIENT, tmp_path / "all")
    assert every.languages == ("eu", "sw", "zu")
    # Of Mark's 16 chapters and Luke's 24.
    assert (every.counts["dev"]["documents"], every.counts["test"]["documents"]) == (16, 24)
    ids = [
        {line.partition("\t")[0] for line in reading.lines(Path(folder) / f"{name}.tsv.gz")}
        for name in translations.values()
    ]
    common = set.intersection(*ids)
    chapters = {verse.rpartition(".")[0] for verse in common if verse.split(".")[1] not in ("MAR", "LUK")}
    assert every.counts["train"]["documents"] == len(chapters) > 200
    assert sum(every.counts[split]["read"] for split in every.splits) == len(common)
    pair = build(source, Languages(source="sw", target="zu"), LENIENT, tmp_path / "pair")
    assert pair.size("train") >= every.size("train")
    assert {*every.pairs("test", Languages(source="sw", target="zu"))} <= {*pair.pairs("test")}
