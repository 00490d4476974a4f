"""`subgraft fit --labels`: from a model and a file of labelled examples to a classifier."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

import subgraft
from command_processes import ended
from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.fit.labelled_split import split_labelled
from subgraft.interfaces.api.inputs import labelled_file
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.training.understanding.predictor import Predictor
from toys import bert, cased_tokenizer, english, german_tokenizer, gpt2

EXAMPLES = [(text, "long" if len(text.split()[0]) > 4 else "short") for text in english(400, 5)]
ENGLISH = Languages(source="en", target="en")
FIT = ["fit", "model", "--labels", "examples.csv", "--out", "fitted", "--quick"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a BERT and a file of examples."""
    Bundle(bert(), cased_tokenizer(), cased_tokenizer()).save(tmp_path / "model")
    with (tmp_path / "examples.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("label", "text"), *((label, text) for text, label in EXAMPLES)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_plan_splits_and_measures_and_trains_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--plan"]) == 0
    said = capsys.readouterr().out
    for message in (
        "classification: 300 to train on, 50 dev, 50 test",
        "a text takes",
        "0 of them done",
        "predictions",
    ):
        assert message in said, said
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert (experiment.task, experiment.languages) == ("classification", Languages(source="und", target="und"))
    assert [system.name for system in experiment.systems] == ["old", "own"] and experiment.downstream.shared
    records = [
        json.loads(line)
        for split in ("train", "dev", "test")
        for line in (here / "fitted" / "text" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert sorted((each["text"], each["label"]) for each in records) == sorted(EXAMPLES)
    assert not (here / "home" / "store").exists() and not (here / "fitted" / "model").exists()


def _cut_off(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-1000])


def _with_nan(weights: Path) -> None:
    tensors = load_file(weights)
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    save_file(tensors, weights, {"format": "pt"})


@pytest.mark.parametrize("task", ["labels", "pairs"])
@pytest.mark.parametrize(("damage", "what"), [(_cut_off, "cannot be loaded"), (_with_nan, "has NaN or infinity")])
def test_a_plan_refuses_damaged_weights(
    here: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], what: str, task: str
) -> None:
    """Of a BERT no update is timed for a plan, which would load it."""
    lines = [text for text, _ in EXAMPLES]
    for language in ("en", "de"):
        (here / f"text.{language}").write_text("".join(f"{line} {language}\n" for line in lines), encoding="utf-8")
    examples = {"labels": ["--labels", "examples.csv"], "pairs": ["--pairs", "text.en", "text.de"]}[task]
    damage(here / "model" / "model.safetensors")
    assert main(["fit", "model", *examples, "--languages", "en-en", "--out", "fitted", "--plan"]) == 2
    assert what in capsys.readouterr().err
    assert not (here / "fitted").exists()


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "conll", "csv.gz"])
def test_a_pipe_is_refused_before_it_is_opened(here: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    """Opening it would wait for a writer."""
    os.mkfifo(here / f"pipe.{ending}")
    assert main(["fit", "model", "--labels", f"pipe.{ending}", "--out", "fitted"]) == 2
    assert "a file is needed here, and this is a pipe" in capsys.readouterr().err


def test_numbers_of_single_texts_are_planned_as_a_regression(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with labelled_file([(text, len(text) / 8) for text, _ in EXAMPLES]) as (path,):
        assert main(["fit", "model", "--labels", str(path), "--out", "fitted", "--plan"]) == 0
    assert "regression: 300 to train on, 50 dev" in capsys.readouterr().out
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert experiment.task == "regression" and not experiment.finetuned_on.needs_pairs


def test_models_of_one_side_are_planned_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bundle(gpt2(), german_tokenizer(), german_tokenizer()).save(here / "gpt2")
    assert main(["fit", "gpt2", "--labels", "examples.csv", "--out", "other", "--plan"]) == 0, capsys.readouterr().err
    assert load(here / "other" / "fit.yaml", Experiment).sides == ("decoder",)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("few.csv", "text,label\n" + "a b,x\nc d,y\n" * 20, "40 labelled examples: a fit needs 300 or more"),
        ("other.csv", "sentence,class\na,b\n", "other.csv:2: the columns are sentence, class"),
        ("examples.xml", "", "does not show the format"),
        ("empty.jsonl", "", "no example"),
        ("one.csv", "text,label\n" + "".join(f"text {n},x\n" for n in range(400)), "label"),
        ("broken.jsonl", "{\n", "broken.jsonl:1"),
        ("two.csv", "text,label,value\na,x,1\n", "label and value are both there"),
        ("three.csv", "text,text_pair,score,value\na,b,2,1\n", "value and score are both there"),
        ("names.csv", "text,label\n" + "".join(f"text {n},x{n}\n" for n in range(400)), "400 of 400 examples have a"),
        ("numbers.csv", "text,label\n" + "".join(f"t {n},{n % 50 / 8}\n" for n in range(400)), "to `value`"),
        ("numbers.jsonl", '{"text": "a", "label": 0.5}\n' * 400, "numbers.jsonl:1: the label is the decimal 0.5"),
    ],
)
def test_unusable_files_are_refused_before_anything_is_written(
    name: str, content: str, complaint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / name).write_text(content, encoding="utf-8")
    assert main(["fit", "model", "--labels", name, "--out", "fitted"]) == 2
    assert complaint in capsys.readouterr().err and not (here / "fitted").exists()


def test_examples_in_memory_are_refused_by_their_number(here: Path) -> None:
    records = [{"text": text, "label": label} for text, label in EXAMPLES]
    with pytest.raises(ArgumentError, match=r"^pairs: 10 labelled examples"):
        subgraft.fit("model", records[:10], labels=True, out="fitted", progress=False)
    records[3]["text"] = 5  # type: ignore[assignment]
    with pytest.raises(ArgumentError, match=r"^pairs: example 4: the field 'text' contains no text"):
        subgraft.fit("model", records, labels=True, out="fitted", progress=False)
    assert not (here / "fitted").exists()


def test_pairs_and_labels_are_not_mixed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--pairs", "a", "b"]) == 2
    assert main([*FIT, "--text", "examples.csv"]) == 2 and "without more text" in capsys.readouterr().err
    assert main([*FIT, "--languages", "en-de"]) == 2 and "in one language" in capsys.readouterr().err
    assert main(["fit", "model", "--out", "fitted"]) == 2 and not (here / "fitted").exists()


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("pairs.tsv", "text\ttext_pair\tlabel\n" + "a b\tc\tx\nd\te f\ty\n" * 200, "pair-classification"),
        ("scores.csv", "text,score\n" + "a b,3.5\nc,1\n" * 200, "regression"),
        ("both.tsv", "value\ttext_pair\ttext\n" + "0.5\ta b\tc\n2\td\te\n" * 200, "regression"),
        ("words.conll", "Ada B-PER\nleft O\n\nBo B-PER\n\n" * 200, "tagging"),
        ("words.jsonl", '{"words": ["Ada", "left"], "tags": ["B-PER", "O"]}\n' * 400, "tagging"),
    ],
)
def test_the_columns_decide_the_task(name: str, content: str, task: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    split = split_labelled(tmp_path / name, ENGLISH)
    assert split.task == task and sum(map(len, split.splits.values())) == 400
    records = [json.loads(record) for record in split.records("test")]
    expected = {
        "pairs.tsv": {"text", "text_pair", "label"},
        "scores.csv": {"text", "score"},
        "both.tsv": {"text", "text_pair", "value"},
    }.get(name, {"words", "tags"})
    assert all(record.keys() == expected for record in records)
    if task == "regression":
        assert {record[split.columns["value"]] for record in records} <= {3.5, 1, 0.5, 2}


@pytest.mark.parametrize(
    ("row", "named", "task"),
    [
        ({"review: all": "a b", "stars": "x"}, {"text": "review: all", "label": "stars"}, "classification"),
        ({"text": "a b", "label": "x", "stars": 2.5}, {"value": "stars"}, "regression"),
        ({"one": "a", "two": "b", "label": "x"}, {"text": "one", "text_pair": "two"}, "pair-classification"),
        ({"tokens": ["Ada", "left"], "ner": ["B-PER", "O"]}, {"word": "tokens", "tag": "ner"}, "tagging"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_of_other_names_are_named(
    row: dict[str, Any], named: dict[str, str], task: str, ending: str, tmp_path: Path
) -> None:
    if task == "tagging" and ending in ("csv", "tsv"):  # which have no lists
        return
    other = {name: "y" if value == "x" else value for name, value in row.items()}
    table, path = pd.DataFrame([row, other] * 200), tmp_path / f"examples.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    split = split_labelled(path, ENGLISH, named)
    assert split.task == task and sum(map(len, split.splits.values())) == 400
    (record, *_) = map(json.loads, split.records("train"))
    assert {name: record[name] for name in named.values()} == {name: row[name] for name in named.values()}
    with pytest.raises(UserError, match="has no column 'absent'"):
        split_labelled(path, ENGLISH, {**named, "text": "absent"} if task != "tagging" else {"word": "absent"})


def test_a_named_column_is_one_of_a_task(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--field", "stars=label"]) == 2
    assert "no task has stars" in capsys.readouterr().err and not (here / "fitted").exists()


@pytest.mark.parametrize(
    "examples",
    [
        EXAMPLES,
        pd.DataFrame(EXAMPLES, columns=["text", "label"]),
        [{"text": text, "label": label} for text, label in EXAMPLES],
    ],
    ids=["tuples", "frame", "records"],
)
def test_examples_in_memory_are_read_in_every_form(examples: Any) -> None:
    with labelled_file(examples) as (path,):
        records: list[Mapping[str, str]] = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
    assert [(each["text"], each["label"]) for each in records] == EXAMPLES


@pytest.mark.ray
def test_a_fit_ends_in_a_classifier_that_predicts(here: Path) -> None:
    code, said = ended(here, FIT)
    assert code == 0, said
    assert "Keep the old vocabulary" in said or "Take own, which scores better than old" in said, said
    assert "subgraft predict fitted/model --input FILE" in said and "accuracy" in said
    predictor = Predictor.load(here / "fitted" / "model")
    assert predictor.name == "classification" and set(predictor.labels) == {"long", "short"}
    code, predicted = ended(here, ["predict", "fitted/model", "--input", "fitted/text/test.jsonl"])
    assert code == 0 and {*predicted.splitlines()} & {"long", "short"}
    assert (here / "fitted" / "report" / "report.html").is_file()
    again = subgraft.fit("model", "examples.csv", out="fitted", quick=True, labels=True, progress=False)
    assert list(again.frame().index) == ["old", "own"] and "accuracy" in again.frame().columns
    assert again.advice in str(again) and again.advised in ("old", "own")
