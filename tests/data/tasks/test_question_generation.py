"""Passages with their answer marked: the right one of several, and marks that stand for nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.kind import Question
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.tasks.question_generation import MarkedAnswer, QuestionGenerationSettings, require_marks
from subgraft.subwords.vocabulary.learn import learn

ENGLISH = Languages(source="en", target="en")
PASSAGE = "Ada met Bo (in Ulm). Later Bo met Cy."


def marked(passage: str, start: int, answer: str, **settings: object) -> str:
    assert passage.startswith(answer, start)
    question = Question(passage, start, start + len(answer), "Who?")
    return MarkedAnswer(QuestionGenerationSettings(**settings))(question)[0]  # type: ignore[arg-type]


def test_the_answers_own_place_is_marked() -> None:
    assert marked(PASSAGE, 27, "Bo") == 'Ada met Bo (in Ulm). Later "- Bo -" met Cy.'
    assert marked(PASSAGE, 15, "Ulm") == 'Ada met Bo (in "- Ulm -" ). Later Bo met Cy.'
    assert marked(PASSAGE, 0, PASSAGE) == f'"- {PASSAGE} -"'
    assert marked(PASSAGE, 27, "Bo", marks=("<hl>", "</hl>"), window=20) == "Later <hl> Bo </hl> met Cy."


def test_a_mark_that_the_passage_holds_already_is_set_apart() -> None:
    assert marked('He said "-what-" and Bo', 21, "Bo") == 'He said " -what- " and "- Bo -"'
    assert marked("a <b> <Bo", 7, "Bo", marks=("<", ">")) == "a b < Bo >", "one character cannot be set apart"


def write_squad(folder: Path, split: str, asked: Sequence[tuple[str, str, int]]) -> None:
    """asked: (question, answer, start) about one passage."""
    answers = [(question, {"text": text, "answer_start": start}) for question, text, start in asked]
    qas = [{"question": question, "answers": [answer, answer]} for question, answer in answers]
    whole = {"data": [{"title": "T", "paragraphs": [{"context": PASSAGE, "qas": qas}]}]}
    (folder / f"{split}.json").write_text(json.dumps(whole))


def test_a_corpus_of_questions_counts_what_was_mended_and_dropped(tmp_path: Path) -> None:
    asked = [
        ("Who met Cy?", "Bo", 27),
        ("Where?", "Ulm", 14),
        ("Who met Cy?", "Bo", 27),
        ("Who?", "Dee", 0),
        ("Held?", "Cy", 34),
    ]
    write_squad(tmp_path, "train", asked)
    write_squad(tmp_path, "dev", [("Held?", "Cy", 34)])
    source = CorpusSource(squad=str(tmp_path))
    pairing = MarkedAnswer(QuestionGenerationSettings())
    corpus = build(source, ENGLISH, Cleaning(max_ratio=None), tmp_path / "out", pairing=pairing)
    assert list(corpus.pairs("train")) == [
        ('Ada met Bo (in Ulm). Later "- Bo -" met Cy.', "Who met Cy?"),
        ('Ada met Bo (in "- Ulm -" ). Later Bo met Cy.', "Where?"),
    ]
    assert corpus.counts["train"] == {
        "answer_moved": 1,
        "answer_not_found": 1,
        "duplicate": 1,
        "held_out": 1,
        "kept": 2,
        "near_copies": 1,
        "read": 4,
    }
    assert not corpus.monolingual


def test_questions_need_the_task_and_files(tmp_path: Path) -> None:
    source = CorpusSource(squad={"train": "train.json"})
    with pytest.raises(UserError, match="no such file"):
        resolve(source, ENGLISH, tmp_path, pairing=MarkedAnswer(QuestionGenerationSettings()))
    write_squad(tmp_path, "train", [("Who?", "Dee", 0)])
    with pytest.raises(UserError, match="task: question-generation"):
        resolve(source, ENGLISH, tmp_path)
    with pytest.raises(UserError, match=r"no question that has its answer in its passage \(answer_not_found: 1\)"):
        resolve(source, ENGLISH, tmp_path, pairing=MarkedAnswer(QuestionGenerationSettings())).size("train")


def test_marks_that_a_vocabulary_reads_as_unknown_are_refused() -> None:
    tokenizer = learn(['he said "so" - twice'] * 20, kind="unigram", size=18)
    require_marks(('"-', '-"'), tokenizer, "here")
    with pytest.raises(UserError, match="cannot spell the mark <<"):
        require_marks(('"-', "<<"), tokenizer, "here")
