"""Documents: their order survives cleaning, gaps are counted, and runs never reach over one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.documents import (
    document_blocks,
    document_texts,
    oversampled_documents,
    texts_by_document,
)
from subgraft.data.text.fields import Place, Run, count_documents, runs, whole_documents

EN_FR = Languages(source="en", target="fr")


def written(folder: Path, split: str, **documents: list[tuple[str, str]]) -> CorpusSource:
    lines = [
        json.dumps({"document": name, "en": [en for en, _ in pairs], "fr": [fr for _, fr in pairs]})
        for name, pairs in documents.items()
    ]
    (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    fields: dict[str, dict[str, str]] = {"en": {}, "fr": {}}
    return CorpusSource.model_validate({"records": {"folder": str(folder), "fields": fields, "document": "document"}})


def test_a_place_survives_being_written() -> None:
    place = Place("library/a b.po", 12)
    assert Place.parse(str(place)) == place


def test_runs_end_where_a_document_does_and_at_gaps() -> None:
    places = [Place("a", 0), Place("a", 1), Place("a", 3), Place("b", 4), Place("b", 5)]
    assert list(runs(map(str, places))) == [Run("a", 0, 2), Run("a", 2, 3), Run("b", 3, 5)]
    assert list(runs([])) == []


def test_documents_with_gaps_are_counted_once() -> None:
    counts: Counter[str] = Counter()
    places = [Place("a", 0), Place("a", 2), Place("a", 4), Place("b", 1), Place("b", 2)]
    assert len(list(count_documents([("text", str(place)) for place in places], counts))) == 5
    assert counts == {"documents": 2, "broken": 1}


@pytest.mark.parametrize(("limit", "taken"), [(100, [1, 1, 1, 1]), (10, [0, 1, 0, 1]), (4, [0, 0, 0, 0])])
def test_a_limit_takes_whole_documents_and_never_more(limit: int, taken: list[int]) -> None:
    assert whole_documents([5, 5, 5, 5], limit) == taken


def test_cleaning_breaks_documents_and_says_so(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        "train",
        first=[("one", "un"), ("", "vide"), ("three", "trois"), ("four", "quatre")],
        second=[("five", "cinq"), ("six", "six")],
    )
    written(tmp_path, "dev", held=[("held out", "mis de côté")])
    corpus = build(source, EN_FR, Cleaning(), tmp_path / "out")
    assert corpus.counts["train"]["documents"] == 2
    assert corpus.counts["train"]["broken"] == 1
    assert corpus.counts["dev"]["documents"] == 1
    assert [field.name for field in corpus.fields] == ["source", "target"]
    assert list(corpus.documents("train")) == [Run("first", 0, 1), Run("first", 1, 3), Run("second", 3, 5)]
    lines = list(corpus.lines("train", "source"))
    assert [lines[run.start : run.stop] for run in corpus.documents("train")] == [
        ["one"],
        ["three", "four"],
        ["five", "six"],
    ]
    assert Corpus.open(tmp_path / "out") == corpus
    again = build(CorpusSource(folder=str(tmp_path / "out")), EN_FR, Cleaning(), tmp_path / "again")
    assert list(again.documents("train")) == list(corpus.documents("train"))


def test_a_corpus_without_documents_says_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n", encoding="utf-8")
    source = CorpusSource(files={"train": (str(tmp_path / "text"),)})
    corpus = build(source, Languages(source="en", target="en"), Cleaning(), tmp_path / "out")
    with pytest.raises(UserError, match="without documents"):
        corpus.documents("train")


def test_a_limit_keeps_documents_whole(tmp_path: Path) -> None:
    documents = {f"d{number}": [(f"en {number} {at}", f"fr {number} {at}") for at in range(4)] for number in range(6)}
    source = written(tmp_path, "train", **documents).model_copy(update={"limit": {"train": 13}})
    corpus = build(source, EN_FR, Cleaning(), tmp_path / "out")
    assert corpus.size("train") == 12
    assert [run.stop - run.start for run in corpus.documents("train")] == [4, 4, 4]
    assert "broken" not in corpus.counts["train"]


@pytest.mark.data
def test_real_documentation_keeps_its_files(mirror: Path, tmp_path: Path) -> None:
    fields: dict[str, dict[str, str]] = {"en": {}, "fr": {}}
    folder = str(mirror / "documents" / "en-fr-itdocs")
    source = CorpusSource.model_validate({"records": {"folder": folder, "fields": fields, "document": "document"}})
    corpus = build(source, EN_FR, Cleaning(deduplicate=False, drop_held_out=False), tmp_path / "out")
    assert [corpus.counts[split]["documents"] for split in corpus.splits] == [273, 25, 25]
    assert (corpus.size("dev"), corpus.size("test")) == (2_417, 1_875)
    assert len(list(corpus.documents("test"))) == 25
    result = list(corpus.documents("train"))
    assert sum(run.stop - run.start for run in result) == corpus.size("train")
    assert corpus.counts["train"]["read"] == 17_501
    names = [run.document for run in result]
    assert len(set(names)) == 273
    assert len(names) - len(set(names)) >= corpus.counts["train"].get("broken", 0) > 0


def test_blocks_take_what_fits_and_cross_no_document() -> None:
    costs, starts = np.array([3, 3, 3, 9, 2, 2, 2]), np.array([0, 3, 7])
    assert document_blocks(costs, starts, 6).tolist() == [0, 2, 3, 4, 7]
    assert document_blocks(costs, starts, 100).tolist() == [0, 3, 7]


def test_documents_of_small_languages_are_repeated_whole(tmp_path: Path) -> None:
    folder = tmp_path / "verses"
    folder.mkdir()
    sizes = {"en": 8, "fr": 2}
    for language, chapters in sizes.items():
        verses = [
            f"b.MAT.{chapter}.{verse}\t{language} {chapter} {verse}" for chapter in range(chapters) for verse in (1, 2)
        ]
        (folder / f"{language}.tsv").write_text("\n".join(verses) + "\n", encoding="utf-8")
    settings = {"folder": str(folder), "translations": {code: code for code in sizes}, "aligned": False}
    source = CorpusSource.model_validate({"verses": settings})
    corpus = build(source, None, Cleaning(deduplicate=False), tmp_path / "out")
    texts = list(document_texts(corpus, "train"))
    assert [(text.language, len(text.lines), len(text.starts) - 1) for text in texts] == [("en", 16, 8), ("fr", 4, 2)]
    drawn = {text.language: text for text in oversampled_documents(texts, 0.0)}
    assert [len(drawn[language].starts) - 1 for language in sizes] == [8, 8]
    french = list(drawn["fr"].lines)
    assert all(french[start : start + 2] in (["fr 0 1", "fr 0 2"], ["fr 1 1", "fr 1 2"]) for start in range(0, 16, 2))


def test_a_text_without_documents_is_one(tmp_path: Path) -> None:
    """Next to a text with documents."""
    lines = [f"b.MAT.{chapter}.{verse}\tfr {chapter} {verse}" for chapter in range(2) for verse in (1, 2)]
    (tmp_path / "fr.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "train.en").write_text("".join(f"en {number}\n" for number in range(14)), encoding="utf-8")
    verses = {"folder": str(tmp_path), "translations": {"fr": "fr"}, "aligned": False}
    texts = {"en": {"files": {"train": [str(tmp_path / "train.en")]}}, "fr": {"verses": verses}}
    source = CorpusSource.model_validate({"texts": texts})
    corpus = build(source, None, Cleaning(deduplicate=False), tmp_path / "out")
    plain = {text.language: text.starts.tolist() for text in texts_by_document(corpus, "train")}
    assert plain == {"en": [0, 14], "fr": [0, 2, 4]}
