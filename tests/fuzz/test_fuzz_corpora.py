"""Corpora in files of every kind, as `corpora check` and `corpora get` take them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzzing import answers, any_text, any_value, damaged, evil, fuzzed, written
from subgraft.interfaces.cli import parser

pytestmark = pytest.mark.slow

RECORDS = [
    '{"text": "Ada met Bo.", "label": "meeting"}\n{"text": "Bo met Cy.", "label": "meeting"}\n',
    '{"en": "Ada met Bo.", "de": "Ada traf Bo.", "document": "a"}\n{"en": "Yes.", "de": "Ja.", "document": "a"}\n',
    '{"document": "a", "en": ["One.", "Two."], "de": ["Eins.", "Zwei."]}\n{"document": "b", "en": [], "de": []}\n',
]
VERSES = "b.MAT.1.1\tIn the beginning.\nb.MAT.1.2-b.MAT.1.3\tTwo of them.\nb.MAT.1.4\tAnd so on.\n"
SQUAD = json.dumps(
    {"data": [{"paragraphs": [{"context": "Ada met Bo. Cy left.", "qas": [{"question": "Whom did Ada meet?",
      "answers": [{"text": "Bo", "answer_start": 8}]}]}]}]}
)  # fmt: skip
CONFIG = """\
name: any
languages: {source: en, target: de}
corpora:
  squad: {squad: {train: s.json, dev: s.json, test: s.json}}
  columns: {columns: {folder: ., source: en, target: de}}
  tabs: {columns: {folder: ., source: 1, target: 2}}
  spans: {records: {folder: ., fields: {text: {language: en}, span: {kind: span, of: text}}}}
  classes: {labelled: {folder: ., format: jsonl}}
  csv: {labelled: {folder: ., format: csv, held_out: {dev: 1}}}
  conll: {labelled: {folder: ., format: conll}}
  choices: {labelled: {folder: ., format: jsonl, choices: document, answer: label}}
  relations: {labelled: {folder: ., format: jsonl, head: span, tail: label, label: document}}
  types: {labelled: {folder: ., format: jsonl, entity: span, labels: label}}
  answers: {labelled: {folder: ., format: jsonl, question: en, passage: text, answers: span}}
  ranked: {labelled: {folder: ., format: jsonl, query: en, candidate: de, relevance: label}}
  numbers: {labelled: {folder: ., format: jsonl, value: label}}
  csv-ranked: {labelled: {folder: ., format: csv, query: en, candidate: de, relevance: label}}
  csv-numbers: {labelled: {folder: ., format: csv, value: label}}
  tags: {labelled: {folder: ., format: jsonl, word: en, tag: de}}
  open: {labelled: {files: {train: s.json, dev: s.json}, format: squad}}
  sentences: {labelled: {files: {train: s.json}, format: squad, ranking: true, held_out: {dev: 1}}}
upstream: {corpus: columns, vocabulary: {size: 100}}
downstream: {corpus: columns, vocabulary: {size: 100}}
finetune: {epochs: 1}
systems: [{name: avg, initialiser: avg}]
"""
any_line = st.dictionaries(st.sampled_from(["text", "en", "de", "document", "label", "span"]), any_value, max_size=4)
any_lines = st.lists(any_line.map(json.dumps), max_size=3).map("\n".join)


def checked_and_got(corpus: str, place: Path, *options: str) -> None:
    """As the commands do; only what they would tell as one message may be raised."""
    shutil.rmtree(place / "out", ignore_errors=True)
    for words in (["check", corpus], ["get", corpus, "--out", str(place / "out")]):
        with answers():
            chosen = parser().parse(["corpora", *words, *options])
            chosen.command(chosen)


@fuzzed(400, text=damaged(st.sampled_from(RECORDS)) | any_lines)
def test_records(text: str, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        written(tmp_path / f"{split}.jsonl", text)
    checked_and_got(str(tmp_path), tmp_path / "any")


@fuzzed(200, text=damaged(st.just(VERSES)) | any_text)
def test_verses(text: str, tmp_path: Path) -> None:
    written(tmp_path / "en.tsv", text)
    written(tmp_path / "de.tsv", VERSES)
    checked_and_got(str(tmp_path), tmp_path / "any")


@fuzzed(200, source=any_text | evil, target=any_text | evil)
def test_parallel_text(source: str, target: str, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        written(tmp_path / f"{split}.en", f"{split}\n{source}\n")
        written(tmp_path / f"{split}.de", f"{split}\n{target}\n")
    checked_and_got(str(tmp_path), tmp_path / "any", "--languages", "en-de")


@fuzzed(400, name=st.sampled_from(["columns", "tabs", "spans"]), text=damaged(st.sampled_from(RECORDS)) | any_lines)
def test_columns_and_spans(name: str, text: str, tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    for split in ("train", "dev", "test"):
        written(tmp_path / f"{split}.{'tsv' if name == 'tabs' else 'jsonl'}", text)
    checked_and_got(f"{tmp_path / 'any.yaml'}:{name}", tmp_path)


@fuzzed(300, text=damaged(st.just(SQUAD)))
def test_questions(text: str, tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    written(tmp_path / "s.json", text)
    checked_and_got(f"{tmp_path / 'any.yaml'}:squad", tmp_path)


LABELLED = [
    *RECORDS,
    '{"text": "Ada met.", "label": 1, "document": ["a", "b"]}\n{"text": "Cy", "label": "A", "document": ["c", "d"]}\n',
    '{"text": "Ada met Bo.", "label": [8, 10], "span": [0, 3], "document": "x"}\n',
    '{"text": "Ada", "en": "Who?", "span": {"text": ["Ada"], "answer_start": [0]}}\n{"text": "A", "en": "b"}\n',
]
OF_JSON = ("classes", "choices", "relations", "types", "answers", "ranked", "numbers", "tags")


@fuzzed(600, name=st.sampled_from(OF_JSON), text=damaged(st.sampled_from(LABELLED)) | any_lines)
def test_labelled_records(name: str, text: str, tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    for split in ("train", "dev", "test"):
        written(tmp_path / f"{split}.jsonl", text)
    checked_and_got(f"{tmp_path / 'any.yaml'}:{name}", tmp_path)


ROWS = 'text,label\n"Ada, ""met"" Bo.",a\nCy,b\nDy,b\n'
WORDS = "-DOCSTART- O\n\nAda B-PER\nmet O\n\nBo I-PER\n"


_NUMBERS = st.sampled_from(
    ["1", "0", "-1", "1e308", "2000", "1e300", "1_000", "nan", "inf", "", "0.5", "\u0661", "9" * 400]
)


@fuzzed(200, kind=st.sampled_from(["csv-numbers", "csv-ranked"]), numbers=st.lists(_NUMBERS, min_size=1, max_size=4))
def test_labels_that_are_numbers(kind: str, numbers: list[str], tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    header = "text,en,de,label"
    for split in ("train", "dev", "test"):
        lines = (f"t{number},q{number},c{number},{value}" for number, value in enumerate(numbers))
        written(tmp_path / f"{split}.csv", "\n".join([header, *lines]))
    checked_and_got(f"{tmp_path / 'any.yaml'}:{kind}", tmp_path)


@fuzzed(400, name=st.sampled_from(["csv", "conll"]), text=damaged(st.sampled_from([ROWS, WORDS])) | any_text | evil)
def test_labelled_rows(name: str, text: str, tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    written(tmp_path / f"train.{name}", text)
    checked_and_got(f"{tmp_path / 'any.yaml'}:{name}", tmp_path)


@fuzzed(200, name=st.sampled_from(["open", "sentences"]), text=damaged(st.just(SQUAD)))
def test_labelled_questions(name: str, text: str, tmp_path: Path) -> None:
    written(tmp_path / "any.yaml", CONFIG)
    written(tmp_path / "s.json", text)
    checked_and_got(f"{tmp_path / 'any.yaml'}:{name}", tmp_path)
