"""Raw documents: blank lines between them, or a file for each; complete ones are held out."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus

ENGLISH = Languages(source="en", target="en")
# Segments of each document.
SIZES = (3, 5, 2, 7, 4, 3, 6, 2)


def lines_of(language: str = "en") -> list[list[str]]:
    return [[f"{language} {number} {at}." for at in range(size)] for number, size in enumerate(SIZES)]


def blank_lines(path: Path, language: str = "en", between: str = "\n") -> None:
    documents = ["".join(f"{line}\n" for line in document) for document in lines_of(language)]
    path.write_text("\n" + between.join(documents) + "\n\n", encoding="utf-8")


def plain(folder: Path, **settings: Any) -> CorpusSource:
    return CorpusSource.model_validate({"plain": {"folder": str(folder), "languages": ["en"], **settings}})


def made(source: CorpusSource, out: Path, languages: Languages | None = ENGLISH) -> Corpus:
    return build(source, languages, Cleaning(deduplicate=False, drop_held_out=False), out)


def by_document(corpus: Corpus, split: str = "train", field: str = "source") -> list[list[str]]:
    lines = list(corpus.lines(split, field))
    return [lines[run.start : run.stop] for run in corpus.documents(split, field)]


def test_blank_lines_end_documents_however_many_there_are(tmp_path: Path) -> None:
    for between in ("\n", "\n \n\t\n"):
        blank_lines(tmp_path / "en.txt", between=between)
        out = tmp_path / f"out {len(between)}"
        corpus = made(plain(tmp_path, documents="blank-lines"), out)
        assert by_document(corpus) == lines_of() and corpus.counts["train"]["documents"] == len(SIZES)
        assert by_document(Corpus.open(out)) == lines_of()


def test_every_file_of_a_folder_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "en" / "more").mkdir(parents=True)
    for number, document in enumerate(lines_of()):
        place = tmp_path / "en" / ("more" if number > 5 else "") / f"{number} a text.txt"
        text = "\n\n".join(document)
        if number == 3:
            Path(f"{place}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            place.write_text(text, encoding="utf-8")
    corpus = made(plain(tmp_path, documents="files"), tmp_path / "out")
    assert by_document(corpus) == lines_of()
    without_language = made(plain(tmp_path / "en", documents="files"), tmp_path / "again")
    assert by_document(without_language) == lines_of()


def test_running_text_is_divided_into_sentences(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("One here. Two there!\nThree.\n\nFour? “Five.” Six", encoding="utf-8")
    settings = {"documents": "blank-lines", "split_sentences": True}
    corpus = made(plain(tmp_path, **settings), tmp_path / "out")
    assert by_document(corpus) == [["One here.", "Two there!", "Three."], ["Four?", "“Five.”", "Six"]]


@pytest.mark.parametrize("seed", [None, 3])
def test_complete_documents_are_held_out(seed: int | None, tmp_path: Path) -> None:
    blank_lines(tmp_path / "en.txt")
    settings = {"documents": "blank-lines", "held_out": {"dev": 6, "test": 9}, "seed": seed}
    corpus = made(plain(tmp_path, **settings), tmp_path / "out")
    splits = [by_document(corpus, split) for split in ("train", "dev", "test")]
    assert sorted(document for split in splits for document in split) == sorted(lines_of())
    assert 0 < corpus.size("dev") <= 6 and 0 < corpus.size("test") <= 9
    again = made(plain(tmp_path, **settings), tmp_path / "again")
    assert by_document(again, "dev") == splits[1]


def test_a_limit_takes_complete_documents(tmp_path: Path) -> None:
    blank_lines(tmp_path / "en.txt")
    source = plain(tmp_path, documents="blank-lines").model_copy(update={"limit": {"train": 12}})
    corpus = made(source, tmp_path / "out")
    assert 0 < corpus.size("train") <= 12 and all(document in lines_of() for document in by_document(corpus))


def test_a_folder_of_splits_and_parallel_files_have_documents_too(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        for language in ("en", "de"):
            blank_lines(tmp_path / f"{split}.{language}", language)
    source = CorpusSource(folder=str(tmp_path), documents="blank-lines")
    corpus = made(source, tmp_path / "out", Languages(source="en", target="de"))
    assert by_document(corpus, "dev") == lines_of("en") and by_document(corpus, "train", "target") == lines_of("de")
    without = made(CorpusSource(folder=str(tmp_path)), tmp_path / "flat", Languages(source="en", target="de"))
    assert not without.has_documents() and without.size("train") == corpus.size("train")
    text = (tmp_path / "train.de").read_text().split("\n")
    (tmp_path / "train.de").write_text("\n".join([text[1], *text[:1], *text[2:]]))
    with pytest.raises(UserError, match="a blank line, which another file does not have there") as error:
        made(source, tmp_path / "broken", Languages(source="en", target="de"))
    assert error.value.where is not None and error.value.where.endswith(":1")


def test_mistakes_have_one_message(tmp_path: Path) -> None:
    blank_lines(tmp_path / "en.txt")
    with pytest.raises(UserError, match="no document has at most 1 segments for the dev split"):
        made(plain(tmp_path, documents="blank-lines", held_out={"dev": 1}), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no document: files"):
        made(plain(tmp_path / "empty", documents="files"), tmp_path / "out")
    (tmp_path / "empty" / "en.txt").write_text("\n \n")
    with pytest.raises(UserError, match="an empty corpus"):
        made(plain(tmp_path / "empty", documents="blank-lines"), tmp_path / "out")
    with pytest.raises(ValidationError, match="split_sentences needs documents"):
        plain(tmp_path, split_sentences=True)
    with pytest.raises(ValidationError, match="not to tagged lines"):
        CorpusSource.model_validate({"plain": {"tagged": "t", "languages": ["en"], "documents": "files"}})
    with pytest.raises(ValidationError, match="applies to a folder or files"):
        CorpusSource.model_validate({"generated": "law", "documents": "blank-lines"})
    assert not (tmp_path / "out").exists()
