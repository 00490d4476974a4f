"""`subgraft.fit`, `evaluate`, `extend` and `trim`: what the commands do, for texts in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import subgraft
from finished import separate_bundle
from subgraft.base.errors import ArgumentError
from subgraft.config.corpora import Languages
from subgraft.interfaces.api.inputs import as_files, pair_columns, pair_files
from subgraft.interfaces.cli import main
from toys import english, german

PAIRS = list(zip(english(400, 5), german(400, 5), strict=True))
EN_DE = Languages(source="en", target="de")


class Table(list[dict[str, Any]]):
    """Records with `column_names`, as a `datasets.Dataset` gives them."""

    @property
    def column_names(self) -> list[str]:
        return list(self[0])


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        pd.DataFrame(PAIRS, columns=["source", "target"]),
        pd.DataFrame([(target, source, 1) for source, target in PAIRS], columns=["de", "en", "score"]),
        pd.DataFrame(PAIRS, columns=["first", "second"]),
        Table({"id": str(i), "translation": {"de": target, "en": source}} for i, (source, target) in enumerate(PAIRS)),
    ],
    ids=["tuples", "source and target", "codes", "two columns", "translation"],
)
def test_pairs_in_memory_are_read_in_every_form(pairs: Any) -> None:
    with as_files(pairs, EN_DE) as files:
        sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    assert list(zip(*sides, strict=True)) == PAIRS


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([("one", "eins"), ("two",)], "pair 2: expected two texts"),
        ([("one", None)], "pair 1: expected two texts"),
        ({"train": [("one", "eins")]}, "a mapping of train\n  Give one of its splits, as in pairs\\['train'\\]"),
        ("text.en", "expected pairs of texts, found 'text.en'"),
        (pd.DataFrame([(1, 2, 3)], columns=list("abc")), "expected the columns source and target, or en and de"),
    ],
)
def test_what_is_not_pairs_is_refused(pairs: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint), as_files(pairs, EN_DE):
        pass


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("names", [("source", "target"), ("de", "en"), ("British", "German")])
def test_pairs_are_read_from_a_table_by_their_columns(tmp_path: Path, ending: str, names: tuple[str, str]) -> None:
    sides = {"source": names[0], "target": names[1]} if names[0] != "de" else {"source": "en", "target": "de"}
    frame = pd.DataFrame(PAIRS, columns=list(sides.values())).assign(score=1.0)
    path = tmp_path / f"pairs.{ending}"
    if ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    columns = sides if names[0] == "British" else {}
    for pairs in (path, frame, frame.to_dict("records")):
        with pair_files(pairs, "no model", EN_DE, columns) as (languages, files):
            read = [side.read_text(encoding="utf-8").splitlines() for side in files]
        assert languages == EN_DE and list(zip(*read, strict=True)) == PAIRS


def test_columns_that_pairs_lack_are_refused(tmp_path: Path) -> None:
    path, lines = tmp_path / "pairs.csv", tmp_path / "lines.en"
    path.write_text("english,german\none,eins\n", encoding="utf-8")
    lines.write_text("one\n", encoding="utf-8")
    columns = {"source": "english", "target": "deutsch"}
    for pairs, named, complaint in (
        (path, columns, "there is no column 'deutsch'; there are english, german"),
        ([("one", "eins")], columns, "a tuple has no columns"),
        ((lines, lines), columns, "a file of lines has no columns"),
        (lines, {}, "one file of pairs must be a table or bilingual"),
        (tmp_path / "absent.csv", {}, "absent.csv"),
    ):
        with pytest.raises(subgraft.UserError, match=complaint), pair_files(pairs, "no model", EN_DE, named):
            pass
    for field in ("english", {"source": "english"}, {"text": "english"}):
        with pytest.raises(ArgumentError, match="pairs have the columns source and target"):
            pair_columns(field)


@pytest.mark.ray
@pytest.mark.slow
def test_the_story_of_the_readme(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lines as they stand, but for the model, which is not that of the demo, and with pairs for the dots."""
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    # So small a model writes nothing of use in so few updates, but its likelihood rises.
    monkeypatch.setattr("subgraft.experiments.fit.configuration.SELECT", "likelihood")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("model").mkdir()
    separate_bundle().save(Path("model"))
    named = {"source_lang": "en", "target_lang": "de"}
    Path("model/tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    readme = (repository / "README.md").read_text(encoding="utf-8")
    (story,) = (block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "subgraft.fit(" in block)
    calls: list[subgraft.StepProgress] = []
    space: dict[str, Any] = {"PAIRS": PAIRS, "progress": calls.append}
    for written, used in (
        (", ...]", ", *PAIRS]"),
        ('"models:/quickstart-en-de@champion"', '"model"'),
        ("quick=True", "quick=True, progress=progress"),
    ):
        assert written in story
        story = story.replace(written, used)
    exec(story, space)
    fitted = space["fitted"]
    assert capsys.readouterr().out == f"{fitted}\n", "nothing else is printed where a function is called"
    assert fitted.out == Path("../fitted") and (tmp_path / "fitted" / "model" / "model.safetensors").is_file()
    training = [call for call in calls if call.step.startswith("finetune own")]
    assert training[0].done == 0 and training[-1].finished
    assert any(0 < call.done <= call.total and call.unit == "steps" and "loss" in call.now for call in training)
    frame = fitted.frame()
    assert list(frame.index) == ["old", "own"] and frame.loc["own", "tokens per sentence"] > 0
    assert fitted.advised in ("old", "own") and fitted.advice in str(fitted) and "BLEU" in str(fitted)
    assert fitted.report.is_file() and len(fitted.plot().axes) >= 2
    assert len(subgraft.translate(fitted.load(), english(3))) == 3


def test_scores_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs, references = german(20, 3), german(20, 4)
    for name, lines in (("outputs", outputs), ("references", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    paths = ["--hypotheses", str(tmp_path / "outputs"), "--references", str(tmp_path / "references")]
    assert main(["evaluate", *paths, "--language", "de", "--metric", "CIDEr", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["scores"]
    scores = subgraft.evaluate(outputs, references, language="de", metrics=["CIDEr"])
    assert [vars(score) for score in scores.scores] == [
        {name: value for name, value in score.items() if name not in ("low", "high")} for score in printed
    ]
    assert all(score["low"] <= score["value"] <= score["high"] for score in printed if "low" in score)
    assert scores.frame().loc["BLEU", "value"] == scores["BLEU"].value and "BLEU\t" in str(scores)


def test_mistakes_in_scoring_name_the_argument() -> None:
    with pytest.raises(subgraft.UserError, match="outputs: expected a list of texts"):
        subgraft.evaluate("a text", ["a text"])
    with pytest.raises(subgraft.UserError, match="no installed package offers the metric 'BLEURT'"):
        subgraft.evaluate(["a"], ["a"], metrics=["BLEURT"])


def test_extended_and_trimmed_vocabularies_are_those_of_the_commands(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    separate_bundle().save(tmp_path / "model")
    text = tmp_path / "text.de"
    text.write_text("".join(f"{line}\n" for line in german(300, 9)))
    common = [str(tmp_path / "model"), "--text", str(text)]
    assert main(["vocab", "extend", *common, "--add", "20", "--out", str(tmp_path / "extended")]) == 0
    assert main(["vocab", "trim", *common, "--min-count", "2", "--out", str(tmp_path / "trimmed")]) == 0
    model = subgraft.load(tmp_path / "model")
    made = {"extended": subgraft.extend(model, [text], add=20), "trimmed": subgraft.trim(model, text, min_count=2)}
    for name, vocabulary in made.items():
        vocabulary.save(tmp_path / f"{name} in Python")
        written = (tmp_path / name / "tokenizer.json").read_bytes()
        assert (tmp_path / f"{name} in Python" / "tokenizer.json").read_bytes() == written


def test_advice_is_that_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    separate_bundle().save(tmp_path / "model")
    text = german(300, 9)
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in text))
    assert main(["advise", str(tmp_path / "model"), "--text", str(tmp_path / "text.de"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    advice = subgraft.advise(subgraft.load(tmp_path / "model"), text)
    frame = advice.frame()
    assert list(zip(frame.index, frame["subwords"], frame["tokens per line"], strict=True)) == [
        (option["way"], option["size"], option["tokens_per_sentence"]) for option in printed["options"]
    ]
    assert (frame["seconds per line"] > 0).all() and "Most worth adding" in str(advice)
    assert "<pre" in advice._repr_html_() and "300 lines" in advice._repr_html_()
    assert advice.plot().axes[0].get_xlabel() == "subwords of the vocabulary"
    assert "seconds per line" not in subgraft.advise(tmp_path / "model", text, side="encoder").frame()
    with pytest.raises(ArgumentError, match="side: expected one of"):
        subgraft.advise(tmp_path / "model", text, side="middle")  # type: ignore[arg-type]


def test_texts_are_escaped_in_a_notebook() -> None:
    markup = "<b>dank</b> &"
    advice = subgraft.advise(subgraft.Model(separate_bundle()), [f"{line} {markup}" for line in german(200, 9)])
    html = advice._repr_html_()
    assert set(re.findall(r"<(\w+)", html)) == {"pre", "span"} and "&lt;" in html


@pytest.mark.parametrize("engine", ["ctranslate2", "transformers"])
def test_an_export_of_a_model_in_memory_is_that_of_its_directory(tmp_path: Path, engine: Any) -> None:
    (tmp_path / "model").mkdir()
    separate_bundle().save(tmp_path / "model")
    exported = subgraft.export(
        subgraft.load(tmp_path / "model"), to=engine, out=tmp_path / "memory", languages=("en", "de")
    )
    command = ["export", str(tmp_path / "model"), "--to", engine, "--languages", "en-de"]
    assert main([*command, "--out", str(tmp_path / "disk")]) == 0
    assert exported.out == tmp_path / "memory" and (exported.check is None) == (engine == "transformers")
    for path in (path for path in (tmp_path / "disk").rglob("*") if path.is_file()):
        assert (exported.out / path.relative_to(tmp_path / "disk")).read_bytes() == path.read_bytes(), path.name


def test_an_impossible_export_names_the_argument(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="quantization: only ctranslate2 quantises"):
        subgraft.export("model", to="transformers", out=tmp_path / "out", quantization="int8")
    with pytest.raises(ArgumentError, match="to: expected one of 'ctranslate2', 'gguf', 'transformers'"):
        subgraft.export("model", to="onnx", out=tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
