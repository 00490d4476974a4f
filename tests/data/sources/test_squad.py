"""Questions are read with the answer where it is, and what does not fit is counted, never guessed in silence."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.data.sources.kind import Question
from subgraft.data.sources.squad import questions

PASSAGE = "Ada met Bo. Later Bo met Cy, and Cy met Ada."


def asked(question: str, *answers: tuple[str, int]) -> dict[str, Any]:
    return {"question": question, "answers": [{"text": text, "answer_start": start} for text, start in answers]}


def write(path: Path, *questions: dict[str, Any], passage: str = PASSAGE) -> Path:
    whole = {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": passage, "qas": list(questions)}]}]}
    raw = json.dumps(whole, indent=1).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def read(path: Path) -> tuple[list[Question], dict[str, int]]:
    counts: Counter[str] = Counter()
    return list(questions(path, counts)), dict(+counts)


@pytest.mark.parametrize("name", ["train.json", "train.json.gz"])
def test_the_first_of_several_annotators_answers_is_taken(tmp_path: Path, name: str) -> None:
    result, counts = read(write(tmp_path / name, asked("Whom did Ada meet?", ("Bo", 8), ("Cy", 25))))
    assert result == [Question(PASSAGE, 8, 10, "Whom did Ada meet?")]
    assert counts == {}


@pytest.mark.parametrize(("declared", "start"), [(18, 18), (17, 18), (11, 8), (-5, 8), (99, 18)])
def test_a_wrong_start_gives_way_to_the_nearest_occurrence_and_is_counted(
    tmp_path: Path, declared: int, start: int
) -> None:
    assert [at for at in range(len(PASSAGE)) if PASSAGE.startswith("Bo", at)] == [8, 18]
    result, counts = read(write(tmp_path / "a.json", asked("Who?", ("Bo", declared))))
    assert [(question.start, question.end) for question in result] == [(start, start + 2)]
    assert counts == ({} if declared == start else {"answer_moved": 1})


def test_questions_without_an_answer_in_the_passage_are_dropped_and_counted(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.json",
        asked("Who?", ("Dee", 0)),
        asked("Impossible?"),
        asked("Empty?", ("", 3)),
        asked("Blank?", (" ", 3)),
        asked("?", ("Cy", 25)),
    )
    result, counts = read(file)
    assert [question.text for question in result] == ["?"]
    assert counts == {"answer_not_found": 1, "no_answer": 3}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda whole: whole.pop("data"), r"a\.json: 'data' is missing or not a list"),
        (lambda whole: whole["data"][0]["paragraphs"][0].pop("context"), r"data\[0\] paragraphs\[0\]: 'context'"),
        (lambda whole: whole["data"][0]["paragraphs"][0]["qas"][0].pop("question"), r"qas\[0\]: 'question'"),
        (
            lambda whole: whole["data"][0]["paragraphs"][0]["qas"][0]["answers"][0].update(answer_start="8"),
            r"qas\[0\] answers\[0\]: 'answer_start' is missing or not a whole number",
        ),
    ],
)
def test_what_is_not_such_json_is_reported_with_its_place(tmp_path: Path, change: Any, complaint: str) -> None:
    whole = json.loads(write(tmp_path / "a.json", asked("Who?", ("Bo", 8))).read_text())
    change(whole)
    (tmp_path / "a.json").write_text(json.dumps(whole))
    with pytest.raises(UserError, match=complaint):
        read(tmp_path / "a.json")


def test_broken_json_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n"data": [\n')
    with pytest.raises(UserError, match=r"a\.json:2: not JSON"):
        read(tmp_path / "a.json")


def test_the_mirrors_questions_all_have_their_answers_where_they_say(mirror: Path) -> None:
    result, counts = read(mirror / "qg-en" / "squad-v1.1-dev48" / "dev.json.gz")
    assert (len(result), counts) == (617, {})


@pytest.mark.parametrize("declared", [150_000, -(10**18), 10**18])
def test_an_answer_that_occurs_everywhere_is_soon_found(tmp_path: Path, declared: int) -> None:
    passage = "ab" + "a" * 199_000
    file = write(
        tmp_path / "a.json", *[asked(f"{number}?", ("aa", declared)) for number in range(1000)], passage=passage
    )
    began = time.process_time()
    result, _ = read(file)
    assert {question.start for question in result} == {min(max(declared, 2), len(passage) - 2)}
    assert time.process_time() - began < 2


def test_work_that_grows_with_questions_times_passages_is_bounded(tmp_path: Path) -> None:
    long = write(tmp_path / "a.json", asked("?", ("a", 0)), passage="a" * 200_001)
    with pytest.raises(UserError, match=r"a passage of 200,001 characters, where at most 200,000 .*\n.*several parag"):
        read(long)
    many = write(tmp_path / "b.json", *[asked("?", ("Bo", 8))] * 1001)
    with pytest.raises(UserError, match=r"paragraphs\[0\]: 1,001 questions about one passage, where at most 1,000"):
        read(many)


def test_json_that_cannot_be_held_as_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        read(tmp_path / "a.json")
    with pytest.raises(UserError, match="ud800 is half a character"):
        read(write(tmp_path / "b.json", asked("\ud800?", ("Bo", 8))))
