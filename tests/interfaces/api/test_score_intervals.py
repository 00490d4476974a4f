"""Outputs scored by sacrebleu's own intervals and paired tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subgraft.interfaces.cli import main

REFERENCES = [f"the cat sat on the mat number {number} today" for number in range(12)]
OUTPUTS = {
    "good.txt": REFERENCES[:9] + ["a cat sits on a mat"] * 3,
    "bad.txt": ["some dog lay at the door"] * 11 + REFERENCES[11:],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"references.txt": REFERENCES, **OUTPUTS}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def evaluate(*arguments: str) -> int:
    return main(["evaluate", "--references", "references.txt", "--language", "en", "--hypotheses", *arguments])


@pytest.mark.usefixtures("files")
def test_one_file_has_the_intervals_of_sacrebleu(capsys: pytest.CaptureFixture[str]) -> None:
    from sacrebleu.metrics.bleu import BLEU

    assert evaluate("good.txt", "--json") == 0
    bleu, *others = json.loads(capsys.readouterr().out)["scores"]
    expected = BLEU().corpus_score(OUTPUTS["good.txt"], [REFERENCES], n_bootstrap=1000)
    assert bleu["value"] == pytest.approx(expected.score) and bleu["low"] < bleu["value"] < bleu["high"]
    assert f"μ = {(bleu['low'] + bleu['high']) / 2:.2f} ± {(bleu['high'] - bleu['low']) / 2:.2f}" in str(
        expected.format(width=2)
    )
    assert {score["name"] for score in others if "low" in score} == {"chrF", "TER"}
    assert evaluate("good.txt") == 0
    line = capsys.readouterr().out.splitlines()[0].split("\t")
    assert line[:2] == ["BLEU", f"{bleu['value']:.2f}"] and line[3] == f"95 % [{bleu['low']:.2f}, {bleu['high']:.2f}]"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("test", ["bs", "ar"])
def test_further_files_are_tested_against_the_first(test: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("same.txt").write_text(Path("good.txt").read_text())
    assert evaluate("good.txt", "bad.txt", "same.txt", "--paired", test, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["baseline"] == "good.txt" and {each["metric"] for each in answer["systems"]} == {
        "BLEU",
        "chrF",
        "TER",
    }
    for metric in ("BLEU", "chrF", "TER"):
        good, bad, same = (each for each in answer["systems"] if each["metric"] == metric)
        assert good["p_value"] is None and bad["p_value"] < 0.05
        assert same["p_value"] == 1.0, "nothing differs"
        assert same["value"] == good["value"] and good["interval"]["low"] < good["interval"]["high"]
        assert f"{test}:" in good["signature"]
    assert evaluate("good.txt", "bad.txt") == 0
    assert "baseline\tgood.txt" in (shown := capsys.readouterr().out) and "\tbad.txt" in shown


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good.txt", "--paired", "ar"], "only several --hypotheses are tested: leave out --paired"),
        (["good.txt", "good.txt"], "a file is there twice"),
        (["good.txt", "bad.txt", "--metric", "CIDEr"], "leave out --metric"),
        (["good.txt", "short.txt"], "1 hypotheses but 12 references"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.txt").write_text("one line\n")
    assert evaluate(*arguments) == 2
    assert message in capsys.readouterr().err
