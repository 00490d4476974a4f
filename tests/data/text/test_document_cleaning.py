"""Rules of whole documents, and parts of a corpus that are read several times."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.cleaning import clean
from subgraft.data.text.document_cleaning import clean_documents, without_repeats
from subgraft.data.text.documents import document_texts
from subgraft.data.text.fields import Sides
from subgraft.data.text.held_out import HeldOut

ENGLISH = Languages(source="en", target="en")


def placed(*documents: str) -> list[Sides]:
    """A document of each text, whose characters are its segments."""
    return [(segment, f"{number}\t{at}") for number, text in enumerate(documents) for at, segment in enumerate(text)]


def read(segments: list[Sides]) -> list[str]:
    """The documents again; positions must be without gaps."""
    joined: dict[str, list[str]] = {}
    for text, place in segments:
        document, position = place.split("\t")
        assert int(position) == len(joined.setdefault(document, []))
        joined[document].append(text)
    return ["".join(each) for each in joined.values()]


@pytest.mark.parametrize(
    ("text", "longest", "left"),
    [
        ("aab", 1, "ab"),
        ("aaaa", 3, "a"),
        ("ababc", 2, "abc"),
        ("ababc", 1, "ababc"),
        ("abcabcabd", 3, "abcabd"),
        ("abcabd", 3, "abcabd"),
    ],
)
def test_a_run_that_repeats_the_one_before_is_dropped(text: str, longest: int, left: str) -> None:
    assert "".join(text[place] for place in without_repeats(text, longest)) == left


def test_no_repeat_remains_in_any_short_text() -> None:
    """All texts of two kinds of segments and 9 places, by brute force."""
    for letters in product("ab", repeat=9):
        text = "".join(letters)
        left = "".join(text[place] for place in without_repeats(text, 3))
        repeats = [
            size
            for size in (1, 2, 3)
            for at in range(len(left))
            if left[at : at + size] == left[at + size : at + 2 * size]
        ]
        assert not [size for size in repeats if size], (text, left)


def test_documents_with_the_same_longest_segments_come_once() -> None:
    counts: Counter[str] = Counter()
    long = ["the longest of all segments", "a segment almost as long", "a third long one", "short"]
    documents = [
        long,
        [long[2], "x", long[0], long[1]],  # the same three, in another order
        [long[0], long[1], "another one here", "short"],
        ["short"],
        ["short"],
    ]
    segments: list[Sides] = [
        (text, f"{number}\t{at}") for number, document in enumerate(documents) for at, text in enumerate(document)
    ]
    cleaned = list(clean_documents(segments, Cleaning(deduplicate_documents=3), counts, [0], None))
    assert {place.split("\t")[0] for _, place in cleaned} == {"0", "2", "3"}
    assert counts == {"read": 5, "same_document": 5}


def test_repeats_leave_no_gap_and_are_counted() -> None:
    counts: Counter[str] = Counter()
    cleaned = list(clean_documents(placed("xyxyz", "abc"), Cleaning(drop_repeats=99), counts, [0], None))
    assert read(cleaned) == ["xyz", "abc"] and counts == {"read": 2, "repeated": 2}


def test_segments_of_few_words_are_dropped_on_either_side() -> None:
    counts: Counter[str] = Counter()
    segments: list[Sides] = [
        ("one two three", "eins zwei drei"),
        ("one two three", "eins zwei"),
        ("one", "eins zwei drei"),
    ]
    left = list(clean(segments, Cleaning(min_words=3), HeldOut([]), counts, [0, 1]))
    assert left == segments[:1] and counts == {"read": 3, "kept": 1, "few_words": 2}


def test_they_are_in_the_record_of_a_corpus(tmp_path: Path) -> None:
    lines = [f"sentence number {number} of a text of several words" for number in range(6)]
    documents = [lines[:3], [*lines[3:6], lines[5]], lines[:3][::-1], ["too few", *lines[1:3]]]
    rows = [json.dumps({"document": f"d{at}", "en": document}) for at, document in enumerate(documents)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows) + "\n")
    records = {"folder": str(tmp_path), "fields": {"en": {"language": "en"}}, "document": "document"}
    source = CorpusSource.model_validate({"records": records})
    rules = Cleaning(deduplicate=False, drop_repeats=9, deduplicate_documents=3, min_words=4)
    corpus = build(source, ENGLISH, rules, tmp_path / "corpus")
    assert list(corpus.lines("train", "source")) == [*lines, *lines[1:3]]
    dropped = {"few_words": 1, "repeated": 1, "same_document": 3}
    assert corpus.counts["train"] == {"documents": 3, "kept": 8, "read": 13, **dropped}
    assert [run.stop - run.start for run in corpus.documents("train")] == [3, 3, 2]


@pytest.mark.parametrize("times", [(1, 3), (2, 1)])
def test_a_part_is_read_as_often_as_its_multiplier_says(tmp_path: Path, times: tuple[int, int]) -> None:
    """After cleaning, so that copies are not struck; dev text once."""
    rng, parts = random.Random(1), list[dict[str, object]]()
    texts = []
    for part in range(2):
        texts.append([f"part {part} line {rng.random()}" for _ in range(5)])
        files = {}
        for split, lines in (("train", [*texts[part], texts[part][0]]), ("dev", [f"dev {part}"])):
            (tmp_path / f"{part}.{split}").write_text("\n".join(lines) + "\n")
            files[split] = [str(tmp_path / f"{part}.{split}")]
        parts.append({"files": files})
    source = CorpusSource.model_validate({"together": parts, "multipliers": times})
    corpus = build(source, ENGLISH, Cleaning(), tmp_path / "corpus")
    assert list(corpus.lines("train", "source")) == [
        line for own, count in zip(texts, times, strict=True) for line in own * count
    ]
    assert corpus.size("dev") == 2
    copies = sum(5 * (count - 1) for count in times)
    assert corpus.counts["train"] == {"duplicate": 2, "kept": 10 + copies, "multiplied": copies, "read": 12}
    once = build(CorpusSource.model_validate({"together": parts}), ENGLISH, Cleaning(), tmp_path / "once")
    assert once.identity != corpus.identity and "multipliers" not in once.identity


def test_there_is_a_multiplier_for_each_part() -> None:
    part = {"generated": "law"}
    with pytest.raises(ValueError, match="multipliers has 1 numbers, but together has 2 parts"):
        CorpusSource.model_validate({"together": [part, part], "multipliers": [2]})


def documented_part(folder: Path, name: str, **splits: list[list[str]]) -> dict[str, object]:
    """A source of documents between blank lines, by split."""
    files = {}
    for split, documents in splits.items():
        (folder / f"{name}.{split}").write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n")
        files[split] = [str(folder / f"{name}.{split}")]
    return {"files": files, "documents": "blank-lines"}


def test_parts_with_documents_keep_them_and_copies_are_of_the_same_documents(tmp_path: Path) -> None:
    """Names do not clash between parts; a copy of a document has its number, so no pair takes it for another one."""
    one = [["one a", "one b", "one c"], ["one d", "one e"]]
    two = [["two a", "two b"]]
    of_one = documented_part(tmp_path, "one", train=one, dev=[["dev a", "dev b"]])
    parts = [of_one, documented_part(tmp_path, "two", train=two)]
    source = CorpusSource.model_validate({"together": parts, "multipliers": [2, 3]})
    corpus = build(source, ENGLISH, Cleaning(), tmp_path / "corpus")
    lines = [line for own, times in ((one, 2), (two, 3)) for _ in range(times) for document in own for line in document]
    assert list(corpus.lines("train", "source")) == lines
    (text,) = document_texts(corpus, "train")
    assert text.starts.tolist() == [0, 3, 5, 8, 10, 12, 14, 16]
    assert text.documents.tolist() == [0, 1, 0, 1, 2, 2, 2]
    assert corpus.counts["train"] == {"documents": 7, "kept": 16, "multiplied": 9, "read": 7}
    (dev,) = document_texts(corpus, "dev")
    assert list(dev.lines) == ["dev a", "dev b"] and dev.starts.tolist() == [0, 2]


def test_documents_that_two_parts_share_are_dropped_once_before_they_are_multiplied(tmp_path: Path) -> None:
    shared = ["the same text", "in both parts"]
    parts = [documented_part(tmp_path, name, train=[shared, [f"only in {name}"]]) for name in ("one", "two")]
    source = CorpusSource.model_validate({"together": parts, "multipliers": [1, 2]})
    rules = Cleaning(deduplicate=False, deduplicate_documents=2)
    corpus = build(source, ENGLISH, rules, tmp_path / "corpus")
    assert list(corpus.lines("train", "source")) == [*shared, "only in one", "only in two", "only in two"]
    assert corpus.counts["train"]["same_document"] == 2


def test_dev_documents_of_parts_take_turns_complete(tmp_path: Path) -> None:
    parts = [
        documented_part(tmp_path, name, train=[["a", "b"]], dev=[[f"{name} {d}{s}" for s in "xyz"] for d in range(3)])
        for name in ("one", "two")
    ]
    corpus = build(CorpusSource.model_validate({"together": parts}), ENGLISH, Cleaning(), tmp_path / "corpus")
    lines = list(corpus.lines("dev", "source"))
    assert lines == [f"{name} {d}{s}" for d in range(3) for name in ("one", "two") for s in "xyz"]
    (dev,) = document_texts(corpus, "dev")
    assert dev.starts.tolist() == list(range(0, 19, 3)) and len(set(dev.documents.tolist())) == 6


def test_parts_with_and_without_documents_are_refused(tmp_path: Path) -> None:
    with_them = documented_part(tmp_path, "one", train=[["a", "b"]])
    without = {"files": with_them["files"]}
    with pytest.raises(UserError, match="some parts have documents, some have none"):
        build(CorpusSource.model_validate({"together": [with_them, without]}), ENGLISH, Cleaning(), tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_runs_of_a_character_become_one_before_duplicates_and_repeats_are_sought(tmp_path: Path) -> None:
    """ERNIE 3, section 3.3.1; runs of other characters, and dev text, stay."""
    lines = ["Really!!!  Yes??  no... ", "Really! Yes?  no...", "a  -- b\t\tc"]
    part = documented_part(tmp_path, "one", train=[lines, ["other text"]], dev=[["what??  dev"]])
    corpus = build(
        CorpusSource.model_validate(part), ENGLISH, Cleaning(squeeze=" \t!?", drop_repeats=1), tmp_path / "corpus"
    )
    assert list(corpus.lines("train", "source")) == ["Really! Yes? no...", "a -- b\tc", "other text"]
    assert list(corpus.lines("dev", "source")) == ["what??  dev"]
    counts = corpus.counts["train"]
    assert counts["squeezed"] == 3 and counts["repeated"] == 1
    special = Cleaning(squeeze="]^-", drop_repeats=None)
    other = CorpusSource.model_validate(documented_part(tmp_path, "two", train=[["a]]^^^--b"]]))
    made = build(other, ENGLISH, special, tmp_path / "other")
    assert list(made.lines("train", "source")) == ["a]^-b"], "characters that mean something in a pattern are plain"


def test_text_with_spans_is_not_squeezed(tmp_path: Path) -> None:
    record = {"en": "Oslo!!  in Norway", "entities": [[11, 17, "Norway"]]}
    (tmp_path / "train.jsonl").write_text(json.dumps(record) + "\n")
    fields = {"en": {"language": "en"}, "entities": {"kind": "spans", "of": "en"}}
    source = CorpusSource.model_validate({"records": {"folder": str(tmp_path), "fields": fields}})
    corpus = build(source, ENGLISH, Cleaning(squeeze=" !"), tmp_path / "corpus")
    assert list(corpus.lines("train", "source")) == [record["en"]]
