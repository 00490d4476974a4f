"""Predictions by a model directory alone, for inputs as users write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from labelled import ENGLISH, RECORDS, headed_bundle, labelled_corpus
from subgraft.base.errors import UserError
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.heads import TASK_ENTRY
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.predictor import Predictor
from subgraft.training.understanding.registry import TASK_CLASSES
from subgraft.training.understanding.spans import NO_ANSWER
from toys import bert, cased_tokenizer

# Columns of the test's files that are called otherwise where users ask.
OWN_NAMES = {"second": "text_pair"}


def records_of(name: str, folder: Path) -> list[dict[str, Any]]:
    """The test examples of `labelled_corpus`, as users ask about them; with labels, which are not read."""
    lines = (folder / f"{name}-files" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    records = [{OWN_NAMES.get(key, key): value for key, value in json.loads(line).items()} for line in lines]
    if name != "ranking":
        return records
    queries: dict[str, list[str]] = {}
    for record in records:
        queries.setdefault(record["query"], []).append(record["candidate"])
    return [{"query": query, "candidates": candidates} for query, candidates in queries.items()]


@pytest.mark.parametrize("name", RECORDS)
def test_a_directory_alone_predicts_what_an_evaluation_does(name: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    task = TASK_CLASSES[name].of(corpus)
    bundle = headed_bundle(name, corpus)
    encoder = TextEncoder.of(bundle, ENGLISH)
    split = task.split(corpus, "test", encoder)
    expected = task.predictions(head_outputs(bundle.model, task, split, encoder.padding).by_example, split)

    bundle.save(tmp_path / "model")
    predictor = Predictor.load(tmp_path / "model")
    assert predictor.name == name and predictor.task.outputs == task.outputs
    inputs = [predictor.form.of_value(record, "") for record in records_of(name, tmp_path)]
    predictions = list(predictor.predict(inputs, batch_tokens=300))
    assert [each.text for each in predictions] == expected.texts
    assert json.loads(json.dumps([each.facts for each in predictions]))
    if expected.probabilities is not None:
        rows = [each.facts["probabilities"] for each in predictions]
        ours = [list(row.values()) if isinstance(row, dict) else row for row in rows]
        assert np.allclose(ours, expected.probabilities, atol=1e-5)


def test_the_task_is_an_entry_that_transformers_keeps(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    headed_bundle("span-extraction", corpus).save(tmp_path / "model")
    loaded = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model")
    longest = max(end - start for spans in corpus.annotations("train", "answers") for start, end in spans)
    assert getattr(loaded.config, TASK_ENTRY) == {
        "task": "span-extraction",
        "answerable": False,
        "longest_answer": longest,
    }
    loaded.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())[TASK_ENTRY]["answerable"] is False


def test_answers_are_at_their_characters_of_the_passage(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    predictor = Predictor(headed_bundle("span-extraction", corpus))
    records = records_of("span-extraction", tmp_path)
    for lead in ("", "  ", "\r\n"):
        passages = [lead + record["passage"] for record in records]
        inputs = [
            predictor.form.of_value({"question": record["question"], "passage": passage}, "")
            for record, passage in zip(records, passages, strict=True)
        ]
        predictions = list(predictor.predict(inputs))
        for passage, each in zip(passages, predictions, strict=True):
            if each.facts["answer"] is None:
                assert each.text == NO_ANSWER and each.facts["score"] <= 0
            else:
                assert passage[each.facts["start"] : each.facts["end"]] == each.facts["answer"] == each.text
        assert any(each.facts["answer"] for each in predictions)


def test_models_that_were_finetuned_elsewhere_read_one_text_or_two() -> None:
    model = transformers.BertForSequenceClassification(bert().config)
    predictor = Predictor(Bundle(model, cased_tokenizer(), cased_tokenizer()))
    assert predictor.name == "classification" and predictor.labels == ("LABEL_0", "LABEL_1")
    both = [predictor.form.of_line(line, "") for line in ("one text", "one text\tand another")]
    assert both == ["one text", ("one text", "and another")]
    together = [each.facts["probabilities"]["LABEL_0"] for each in predictor.predict(both)]
    alone = [next(predictor.predict([each])).facts["probabilities"]["LABEL_0"] for each in both]
    assert together == pytest.approx(alone, abs=1e-6) and together[0] != together[1]


def test_long_inputs_are_cut_and_said_to_be(tmp_path: Path) -> None:
    corpus = labelled_corpus("classification", tmp_path)
    predictor = Predictor(headed_bundle("classification", corpus))
    short, long = predictor.predict(["a text", "many words " * 400])
    assert not short.truncated and long.truncated
    assert list(predictor.predict([])) == [] and len(list(predictor.predict(["", " "]))) == 2


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(UserError, match="no head that predicts labels"):
        Predictor(Bundle(bert(), cased_tokenizer(), cased_tokenizer()))


@pytest.mark.parametrize(
    ("task", "value", "expected"),
    [
        ("classification", " a text\n", "a text"),
        ("classification", {"text": "two\nlines", "label": "x"}, "two lines"),
        ("pair-classification", ("one", "two"), ("one", "two")),
        ("ranking", ["query", "first", "second"], ("query", ["first", "second"])),
        ("ranking", ("query", ["first"]), ("query", ["first"])),
        ("multiple-choice", {"text": "t", "choices": ["a", "b"]}, ("t", ["a", "b"])),
        ("tagging", ["Ada", "left"], "Ada left"),
        ("tagging", "Ada  left ", "Ada left"),
        ("tagging", {"words": ["Ada"]}, "Ada"),
        (
            "relation-classification",
            {"text": "Ada met Bo", "head": "0:3", "tail": [8, 10]},
            ("Ada met Bo", (0, 3), (8, 10)),
        ),
        ("entity-typing", {"text": "Ada", "entity": [0, 3]}, ("Ada", (0, 3))),
    ],
)
def test_inputs_have_several_forms(task: str, value: Any, expected: Any) -> None:
    assert TASK_CLASSES[task].form.of_value(value, "") == expected


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [
        ("classification", ("one", "two"), "expected text, found 2 texts"),
        ("classification", 5, "expected text, found 5"),
        ("classification", {"txt": "a"}, "no field 'text'"),
        ("classification", {"text": 5}, "'text' contains no text"),
        ("classification", "\ud800", "half a character"),
        ("pair-classification", "one", "expected text, text_pair, found one text"),
        ("ranking", {"query": "q", "candidates": []}, "no candidates"),
        ("tagging", ["two words"], "is not one word"),
        ("tagging", [""], "is not one word"),
        ("entity-typing", {"text": "Ada", "entity": [0, 9]}, "no characters"),
        ("entity-typing", {"text": "Ada", "entity": "x:y"}, "not a pair of whole numbers"),
        ("entity-typing", "Ada", "expected an object with text, entity"),
        ("relation-classification", {"text": "Ada", "head": [0, 1]}, "no field 'tail'"),
    ],
)
def test_other_values_are_refused_with_their_place(task: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        TASK_CLASSES[task].form.of_value(value, "input 7")
    assert refused.value.where == "input 7"
