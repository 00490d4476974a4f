"""A finetuned model is scored on a file of labelled examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labelled import ENGLISH, RECORDS, headed_bundle, labelled_corpus
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.interfaces.api.label_scores import evaluate_labels
from subgraft.interfaces.cli import main
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.registry import LABELLED_TASKS


@pytest.mark.parametrize("name", RECORDS)
def test_the_scores_are_those_of_an_evaluation(name: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    task, bundle = LABELLED_TASKS[name].of(corpus), headed_bundle(name, corpus)
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
    first, *_ = capsys.readouterr().out.splitlines()
    accuracy = expected.scores[0]
    assert first.startswith(f"accuracy\t{accuracy.value:.2f} [{accuracy.low:.2f}, {accuracy.high:.2f}]\t")


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
