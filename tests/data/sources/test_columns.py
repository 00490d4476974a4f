"""Pairs in columns: by number between tabs, by name in JSON lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.columns import ColumnFiles, pairs
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource, resolve

ENGLISH = Languages(source="en", target="en")


def columns(**settings: Any) -> ColumnFiles:
    return ColumnFiles(folder=".", **settings)


def test_tabs_part_columns_and_quotes_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(gzip.compress(b'7\t"long\ttext"\n8\ta b\tc\n'))
    assert list(pairs(tmp_path / "a.tsv", columns(source=2, target=3))) == [('"long', 'text"'), ("a b", "c")]
    assert list(pairs(tmp_path / "a.tsv", columns())) == [("7", '"long'), ("8", "a b")]


def test_fields_are_joined_and_of_a_list_the_first_is_taken(tmp_path: Path) -> None:
    line = {"context": "A tale.", "answers": ["Ada", "Bo"], "question": "Who?"}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    form = columns(source=("answers", "context"), target="question", separator=" | ")
    assert list(pairs(tmp_path / "a.jsonl", form)) == [("Ada | A tale.", "Who?")]


@pytest.mark.parametrize(
    ("text", "form", "complaint"),
    [
        ("a\tb\nc\n", {}, r"a:2: no column 2"),
        ('{"x": "a"}\n', {"source": "x", "target": "y"}, r"a:1: no field 'y'"),
        ('{"x": "a", "y": 3}\n', {"source": "x", "target": "y"}, r"a:1: the field 'y' contains no text"),
        ('{"x": "a", "y": [{"role": "user"}]}\n', {"source": "x", "target": "y"}, r"a:1: .*contains a conversation"),
        ('{"x": "a", "y": []}\n', {"source": "x", "target": "y"}, r"a:1: the field 'y' contains no text"),
        ("\n", {"source": "x", "target": "y"}, r"a:1: not JSON"),
        ("[1]\n", {"source": "x", "target": "y"}, r"a:1: not a JSON object"),
    ],
)
def test_a_line_that_lacks_a_column_is_reported(
    tmp_path: Path, text: str, form: dict[str, Any], complaint: str
) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(UserError, match=complaint):
        list(pairs(tmp_path / "a", columns(**form)))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"folder": "a", "files": {"train": "b"}}, "exactly one of folder, files"),
        ({}, "exactly one of folder, files"),
        ({"folder": "a", "source": "text"}, "not both"),
        ({"folder": "a", "source": 0}, "counted from 1"),
        ({"folder": "a", "source": ()}, "need a column each"),
    ],
)
def test_columns_that_make_no_sense_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ColumnFiles(**settings)


def test_a_folder_of_pairs_in_one_language_becomes_a_corpus_of_two_sides(tmp_path: Path) -> None:
    for split, count in (("train", 6), ("dev", 2)):
        lines = [
            json.dumps({"text": f"a long {split} text {number}", "summary": f"{split} {number}"})
            for number in range(count)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    source = CorpusSource(columns=columns(source="text", target="summary"), limit={"train": 3})
    result = resolve(source, ENGLISH, tmp_path)
    assert (result.splits, result.monolingual, result.size("train")) == (("train", "dev"), False, 3)
    other = source.model_copy(update={"columns": columns(source="summary", target="text")})
    assert result.identity() != resolve(other, ENGLISH, tmp_path).identity()
    corpus = build(source, ENGLISH, Cleaning(), tmp_path / "out", base=tmp_path)
    assert list(corpus.pairs("train")) == [(f"a long train text {n}", f"train {n}") for n in (1, 3, 5)]
    # What `corpora get` made is itself a folder of pairs in one language.
    again = resolve(CorpusSource(folder="out"), ENGLISH, tmp_path)
    assert not again.monolingual
    assert list(again.read("dev")) == [(f"a long dev text {n}", f"dev {n}") for n in (0, 1)]


def test_a_file_without_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("")
    with pytest.raises(UserError, match="an empty corpus"):
        resolve(CorpusSource(columns=columns()), ENGLISH, tmp_path).size("train")


def test_the_mirrors_tales_are_pairs_of_fields(mirror: Path) -> None:
    form = ColumnFiles(folder="qg-en/fairytaleqa", source=("answers", "context"), target="question", separator=" | ")
    result = resolve(CorpusSource(columns=form), ENGLISH, mirror)
    assert [result.size(split) for split in result.splits] == [8548, 1025, 1007]
