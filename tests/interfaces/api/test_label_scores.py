"""A finetuned model is scored on a file of labelled examples."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labelled import ENGLISH, RECORDS, headed_bundle, labelled_corpus
from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.interfaces.api.label_scores import evaluate_labels
from subgraft.interfaces.cli import main
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.registry import TASK_CLASSES


@pytest.mark.parametrize("name", RECORDS)
def test_the_scores_are_those_of_an_evaluation(name: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    task, bundle = TASK_CLASSES[name].of(corpus), headed_bundle(name, corpus)
    bundle.save(tmp_path / "model")
    encoder = TextEncoder.of(bundle, ENGLISH)
    split = task.split(corpus, "test", encoder)
    outputs = head_outputs(bundle.model, task, split, encoder.padding).by_example
    statistics = task.statistics(task.predictions(outputs, split))
    path = tmp_path / f"{name}-files" / "test.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"second":', '"text_pair":'), encoding="utf-8")
    result = evaluate_labels(tmp_path / "model", path)
    assert result.examples == corpus.size("test") and [each.name for each in result.scores] == list(task.metrics)
    for each in result.scores:
        expected = float(label_metric(each.name).score(statistics[each.name].sum(axis=0)))
        assert each.value == pytest.approx(expected, abs=1e-6, nan_ok=True)
        assert each.low <= each.value <= each.high


def test_the_command_prints_scores_with_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headed_bundle("classification", labelled_corpus("classification", tmp_path)).save(tmp_path / "model")
    model, test = str(tmp_path / "model"), str(tmp_path / "classification-files" / "test.jsonl")
    expected = evaluate_labels(model, test)
    assert main(["evaluate", "--model", model, "--labels", test, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["examples"] == 20 and printed["scores"][0] == vars(expected.scores[0])
    assert main(["evaluate", "--model", model, "--labels", test]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    accuracy = expected.scores[0]
    assert last == "examples\t20 scored"
    assert first.startswith(f"accuracy\t{accuracy.value:.2f} [{accuracy.low:.2f}, {accuracy.high:.2f}]\t")


def test_rows_that_cannot_be_scored_and_long_inputs_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headed_bundle("classification", labelled_corpus("classification", tmp_path)).save(tmp_path / "model")
    (tmp_path / "test.csv").write_text(f"text,label\na b,short\nc d,\ne f,\n,long\n{'a b ' * 400},long\n")
    command = ["evaluate", "--model", str(tmp_path / "model"), "--labels", str(tmp_path / "test.csv")]
    assert main(command) == 0
    said = "examples\t2 scored; left out: 1 without text, 2 without a label; 1 lost their end, too long for the model"
    assert said in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["left_out"] == {"without text": 1, "without a label": 2}
    assert (printed["examples"], printed["truncated"]) == (2, 1)


def test_answers_that_are_not_in_their_passage_are_reported(tmp_path: Path) -> None:
    headed_bundle("span-extraction", labelled_corpus("span-extraction", tmp_path)).save(tmp_path / "model")
    answers = [{"text": "b", "answer_start": 2}], [{"text": "x", "answer_start": 0}]
    records = [{"question": "a", "passage": "a b c", "answers": each} for each in answers]
    (tmp_path / "test.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    result = evaluate_labels(tmp_path / "model", tmp_path / "test.jsonl")
    assert result.examples == 1 and result.left_out == {"with an answer that is not in the passage": 1}


@pytest.mark.parametrize(
    "option",
    [
        ["--metric", "CIDEr"],
        ["--task", "translation"],
        ["--documents"],
        ["--language", "de"],
        ["--beam", "4"],
        ["--batch-size", "32"],
    ],
)
def test_options_without_effect_on_labels_are_refused(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--model", str(tmp_path / "model"), "--labels", str(tmp_path / "test.csv")]
    assert main(["evaluate", *files, *option]) == 2
    assert f"leave out {option[0]}" in capsys.readouterr().err


def test_options_of_a_model_are_refused_where_files_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--hypotheses", "a", "--references", "b"]
    for option in (["--languages", "en-de"], ["--beam", "2"], ["--batch-size", "2"]):
        assert main(["evaluate", *files, *option]) == 2 and f"leave out {option[0]}" in capsys.readouterr().err
    assert main(["evaluate", *files, "--documents", "--task", "translation"]) == 2
    assert "leave out --task" in capsys.readouterr().err


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    headed_bundle("regression", labelled_corpus("regression", tmp_path)).save(tmp_path / "model")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UserError, match="a file is needed here, and this is a pipe"):
        evaluate_labels(tmp_path / "model", tmp_path / "pipe.jsonl")


def test_two_columns_of_numbers_are_refused(tmp_path: Path) -> None:
    headed_bundle("regression", labelled_corpus("regression", tmp_path)).save(tmp_path / "model")
    (tmp_path / "test.csv").write_text("text,text_pair,value,score\na,b,1,2\n")
    with pytest.raises(UserError, match="value and score are both there"):
        evaluate_labels(tmp_path / "model", tmp_path / "test.csv")


def test_what_does_not_fit_the_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headed_bundle("classification", labelled_corpus("classification", tmp_path)).save(tmp_path / "model")
    (tmp_path / "new.csv").write_text("text,label\na b,short\nc d,round\n", encoding="utf-8")
    (tmp_path / "words.conll").write_text("a B-x\n\nb O\n", encoding="utf-8")
    for name, complaint in (
        ("new.csv", "example 2: the model has no label 'round'"),
        ("words.conll", "for tagging, and the model for classification"),
        ("absent.csv", "absent.csv"),
    ):
        assert main(["evaluate", "--model", str(tmp_path / "model"), "--labels", str(tmp_path / name)]) == 2
        assert complaint in capsys.readouterr().err
    assert main(["evaluate", "--hypotheses", "x", "--labels", "y"]) == 2
    assert "--model" in capsys.readouterr().err
