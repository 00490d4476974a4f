"""Conversations as others write them, their mistakes by file and line, and conversations made of pairs."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.tasks.question_generation import QuestionGenerationSettings, pairing
from subgraft.data.text.corpus import Corpus

ENGLISH = Languages(source="en", target="en")
CLEANING = Cleaning(max_characters=None, max_ratio=None)


def messages(*turns: str, first: str = "user") -> dict[str, Any]:
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return {"messages": [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]}


def sharegpt(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"conversations": [{"from": role, "value": text} for role, text in turns], "id": "a_0"}


def built(place: Path, lines: list[Any], source: dict[str, Any] | None = None) -> Corpus:
    """A corpus whose training split has these lines."""
    (place / "own").mkdir(exist_ok=True)
    for split, content in (("train", lines), ("dev", [messages("d", "e")]), ("test", [messages("t", "u")])):
        written = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in content)
        (place / "own" / f"{split}.jsonl.gz").write_bytes(gzip.compress(written.encode()))
    settings = CorpusSource.model_validate({"conversations": source or {"folder": "own"}})
    (place / "out").mkdir()
    return build(settings, ENGLISH, CLEANING, place / "out", base=place)


def test_both_forms_are_read_and_every_character_of_a_turn_stays(tmp_path: Path) -> None:
    code = "\tif a:\n\n\t\tb \u2028 c\x85\n"
    lines = [messages("one", code), sharegpt(("system", "be brief"), ("human", "two"), ("gpt", "2"))]
    corpus = built(tmp_path, lines)
    assert list(corpus.conversations("train")) == [
        [{"role": "user", "content": "one"}, {"role": "assistant", "content": code}],
        [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "two"},
            {"role": "assistant", "content": "2"},
        ],
    ]
    assert list(corpus.lines("train", "source")) == ["one \tif a:  \t\tb   c", "be brief two 2"]
    opened = Corpus.open(tmp_path / "out")
    assert opened.sizes == {"train": 2, "dev": 1, "test": 1} and opened.monolingual
    again = build(CorpusSource(folder="out"), ENGLISH, CLEANING, tmp_path / "again", base=tmp_path)
    assert list(again.conversations("train")) == list(opened.conversations("train"))


def test_what_cannot_be_learnt_is_left_out_and_counted(tmp_path: Path) -> None:
    lines = [
        messages("a", "b", "c"),
        messages("a", "  "),
        messages("only a question"),
        messages("hello", "x", "y", first="assistant"),
        sharegpt(("system", " "), ("human", "q"), ("gpt", "r")),
        messages("d", "e"),
    ]
    corpus = built(tmp_path, lines)
    assert [len(turns) for turns in corpus.conversations("train")] == [2, 2]
    assert corpus.counts["train"] == {
        "read": 3,
        "kept": 2,
        "held_out": 1,
        "unanswered_turns": 1,
        "empty_turn": 1,
        "no_answer": 2,
        "empty_system_turns": 1,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"messages": [', r"train.jsonl.gz:2: not JSON.*One JSON object a line"),
        ({"text": "a"}, r"train.jsonl.gz:2: no conversation: a list `messages` is missing.*Write \{\"messages\""),
        ({"messages": ["a"]}, r":2: no conversation"),
        ({"messages": [{"role": "bot", "content": "a"}]}, r":2: turn 1 has the role 'bot'.*system, user, assistant"),
        ({"messages": [{"content": "a"}]}, r":2: turn 1 has no role"),
        ({"messages": [{"role": ["user"], "content": "a"}]}, r":2: turn 1 has the role"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, r":2: the content of turn 1 is not text"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]}, r":2: the content of turn 2"),
    ],
)
def test_mistakes_are_refused_with_file_and_line(line: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        built(tmp_path, [messages("a", "b"), line])
    assert re.search(message, str(caught.value).replace("\n", " "))


def test_a_file_without_any_answer_is_refused_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no conversation with an answer \(no_answer 2\)"):
        built(tmp_path, [messages("a"), messages("b")])


def test_a_systems_turn_is_put_before_conversations_without_one(tmp_path: Path) -> None:
    files = {split: f"own/{split}.jsonl.gz" for split in ("train", "dev", "test")}
    lines = [messages("a", "b"), sharegpt(("system", "own"), ("human", "q"), ("gpt", "r"))]
    corpus = built(tmp_path, lines, {"files": files, "system": "be brief"})
    assert [turns[0]["content"] for turns in corpus.conversations("train")] == ["be brief", "own"]


def test_pairs_and_questions_become_conversations(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "pairs" / f"{split}.en").write_text(f"a {split}\nempty\n")
        (tmp_path / "pairs" / f"{split}.fr").write_text(f"un {split}\n\n")
    form = {
        "pairs": {"folder": "pairs"},
        "languages": {"source": "en", "target": "fr"},
        "prompt": "In French: {source}",
    }
    french = Languages(source="fr", target="fr")
    source = CorpusSource.model_validate({"conversations": form})
    corpus = build(source, french, CLEANING, tmp_path / "chat", base=tmp_path)
    turns = [{"role": "user", "content": "In French: a train"}, {"role": "assistant", "content": "un train"}]
    assert list(corpus.conversations("train")) == [turns] and corpus.counts["train"]["empty_turn"] == 1
    question = {"question": "Who?", "id": "1", "answers": [{"text": "Ann", "answer_start": 0}]}
    article = {"title": "t", "paragraphs": [{"context": "Ann sang.", "qas": [question]}]}
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.json").write_text(json.dumps({"data": [article]}))
    asks = {
        "pairs": {"squad": {split: f"{split}.json" for split in ("train", "dev", "test")}},
        "prompt": "Ask. {source}",
    }
    source = CorpusSource.model_validate({"conversations": asks})
    paired = pairing(QuestionGenerationSettings())
    cleaning = CLEANING.model_copy(update={"drop_held_out": False})
    corpus = build(source, ENGLISH, cleaning, tmp_path / "asked", base=tmp_path, pairing=paired)
    assert next(corpus.conversations("test"))[0]["content"] == 'Ask. "- Ann -" sang.' and source.has_questions


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "exactly one of folder, files, pairs"),
        ({"folder": "a", "pairs": {"folder": "b"}}, "exactly one"),
        ({"pairs": {"folder": "b"}, "prompt": "a"}, r"prompt needs \{source\}"),
        ({"folder": "a", "prompt": "{source}!"}, "languages and prompt apply to pairs"),
        ({"folder": "a", "system": " "}, "system is empty"),
    ],
)
def test_settings_that_do_not_agree_are_refused(form: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CorpusSource.model_validate({"conversations": form})
