"""Predictions by function and by command, from a model's directory."""

from __future__ import annotations

import gzip
import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pandas as pd
import pytest

import subgraft
from finished import mbart_bundle
from labelled import headed_bundle, labelled_corpus
from subgraft.base.errors import UserError
from subgraft.interfaces.cli import main

TEXTS = ["the first text", "and another\tone", ""]


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    return _model("classification", tmp_path)


def _model(task: str, folder: Path) -> Path:
    headed_bundle(task, labelled_corpus(task, folder)).save(folder / f"{task}-model")
    return folder / f"{task}-model"


def test_a_command_predicts_what_the_function_does(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    predicted = subgraft.predict(classifier, TEXTS)
    assert main(["predict", str(classifier), "--input", str(tmp_path / "texts")]) == 0
    assert capsys.readouterr().out.splitlines() == predicted.texts
    assert main(["predict", str(classifier), "--input", str(tmp_path / "texts"), "--json"]) == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert facts == [each.facts for each in predicted]
    assert all(sum(each["probabilities"].values()) == pytest.approx(1) for each in facts)
    assert all(max(each["probabilities"], key=each["probabilities"].get) == each["label"] for each in facts)


def test_a_file_of_labelled_examples_is_read_as_it_is(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = tmp_path / "classification-files" / "test.jsonl"
    assert main(["predict", str(classifier), "--input", str(examples)]) == 0
    texts = [json.loads(line)["text"] for line in examples.read_text(encoding="utf-8").splitlines()]
    assert capsys.readouterr().out.splitlines() == subgraft.predict(classifier, texts).texts


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_a_table_is_read_by_its_header(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    between = "\t" if ending == "tsv" else ","
    lines = [("label", "text"), ("long", TEXTS[0]), ("short", "it works"), ("long", "a " * 2000)]
    content = "".join(f"{between.join(cells)}\n" for cells in lines).encode()
    (tmp_path / f"reviews.{ending}").write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert main(["predict", str(classifier), "--input", str(tmp_path / f"reviews.{ending}")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == subgraft.predict(classifier, [text for _, text in lines[1:]]).texts
    assert f"the first is {tmp_path / f'reviews.{ending}'}:4" in err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_other_names_are_named(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    file, texts = tmp_path / f"reviews.{ending}", [TEXTS[0], "it works"]
    table = pd.DataFrame({"review": texts, "stars": ["long", "short"], "text": ["no", "no"]})
    table.to_csv(file, index=False) if ending == "csv" else table.to_parquet(file)
    assert main(["predict", str(classifier), "--input", str(file), "--field", "review"]) == 0
    assert capsys.readouterr().out.splitlines() == subgraft.predict(classifier, texts).texts
    scoring = ["evaluate", "--model", str(classifier), "--labels", str(file), "--field", "text=review"]
    assert main([*scoring, "--field", "label=stars", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 2
    assert main([*scoring, "--field", "value=stars"]) == 2
    assert "classification has no column value" in capsys.readouterr().err
    assert main(["predict", str(classifier), "--input", str(file), "--format", "lines", "--field", "review"]) == 2
    assert "lines have no columns" in capsys.readouterr().err


def test_a_table_without_the_columns_is_refused(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reviews.csv").write_text("a text,long\nanother,short\n")
    command = ["predict", str(classifier), "--input", str(tmp_path / "reviews.csv")]
    assert main(command) == 2
    assert "reviews.csv:2: no field 'text'" in (err := capsys.readouterr().err) and "--format lines" in err
    assert main([*command, "--format", "lines"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["predict", str(classifier), "--format", "csv"]) == 2
    assert "csv is read from a file" in capsys.readouterr().err


def test_the_words_of_conll_are_tagged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tagger = _model("tagging", tmp_path)
    (tmp_path / "words.conll").write_text("some O\n10\u00a0000 O\n\ntime O\n")
    assert main(["predict", str(tagger), "--input", str(tmp_path / "words.conll"), "--json"]) == 0
    words = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["words"] for each in words] == [["some", "10\u00a0000"], ["time"]]
    assert [len(each["tags"]) for each in words] == [2, 1]


def test_standard_input_has_columns_between_tabs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = _model("ranking", tmp_path)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"query\tone\ttwo\tthree\n")))
    assert main(["predict", str(ranker), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (expected,) = subgraft.predict(ranker, [("query", ["one", "two", "three"])])
    assert json.loads(line) == expected.facts and sorted(expected.facts["ranks"]) == [1, 2, 3]
    best = max(range(3), key=expected.facts["scores"].__getitem__)
    assert expected.facts["ranks"][best] == 1 and expected.text == ["one", "two", "three"][best]


@pytest.mark.parametrize(
    ("lines", "form", "message"),
    [
        ("one\ttwo\nalone\n", "lines", ":2: expected text, text_pair, found one text"),
        ('{"text": "a", "text_pair": "b"}\n{"text": "a"}\n', "jsonl", ":2: no field 'text_pair'"),
        ("{\n", "jsonl", ":1: "),
    ],
)
def test_mistakes_name_their_line(
    lines: str, form: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = _model("pair-classification", tmp_path)
    (tmp_path / "input").write_text(lines, encoding="utf-8")
    assert main(["predict", str(model), "--input", str(tmp_path / "input"), "--format", form]) == 2
    out, err = capsys.readouterr()
    assert message in err and not out


def test_long_inputs_are_reported(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts").write_text("short\n" + "long " * 2000 + "\n", encoding="utf-8")
    assert main(["predict", str(classifier), "--input", str(tmp_path / "texts")]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 and "1 of 2 inputs lost their end" in err and "texts:2" in err


def test_models_that_write_and_models_that_predict_refer_to_each_other(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").write_text("a\n", encoding="utf-8")
    assert main(["generate", "--model", str(classifier), "--input", str(tmp_path / "texts")]) == 2
    assert "subgraft predict" in capsys.readouterr().err
    mbart_bundle().save(tmp_path / "mbart")
    assert main(["predict", str(tmp_path / "mbart"), "--input", str(tmp_path / "texts")]) == 2
    assert "subgraft generate" in capsys.readouterr().err


def test_predictions_are_a_table_and_a_frame(classifier: Path) -> None:
    predicted = subgraft.predict(subgraft.load(classifier), [{"text": f"text {number}"} for number in range(30)])
    frame = predicted.frame()
    assert len(frame) == len(predicted) == 30 and {"input", "label", "p(long)", "p(short)"} == set(frame.columns)
    assert list(frame["label"]) == predicted.texts and predicted[3].text == predicted.texts[3]
    assert "and 10 more" in str(predicted) and predicted.texts[0] in predicted._repr_html_()
    assert subgraft.predict(classifier, []).frame().empty


def test_inputs_of_other_forms_are_refused(classifier: Path) -> None:
    with pytest.raises(UserError, match="input 2: expected text, found 5"):
        subgraft.predict(classifier, ["a", 5])
    with pytest.raises(UserError, match="expected a list of inputs"):
        subgraft.predict(classifier, "a text")


def test_objects_have_fields_of_other_names(classifier: Path) -> None:
    objects = [{"review": text, "stars": 3} for text in TEXTS]
    assert (
        subgraft.predict(classifier, objects, field={"text": "review"}).texts
        == subgraft.predict(classifier, TEXTS).texts
    )
    with pytest.raises(UserError, match="there is no field 'body'; there are review, stars"):
        subgraft.predict(classifier, objects, field={"text": "body"})
    with pytest.raises(UserError, match="expected an object with fields, found 'a text'"):
        subgraft.predict(classifier, ["a text"], field={"text": "body"})
