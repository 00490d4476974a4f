"""`--json`: one JSON object under stable names, in place of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import toys
from subgraft.interfaces.cli import main
from subgraft.interfaces.cli.arguments import print_json
from subgraft.modeling.bundle import Bundle


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """A command's JSON."""

    def run(*arguments: str | Path) -> Any:
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_numbers_that_json_lacks_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(values=(float("nan"), float("inf"), 1.5), path=Path("a"))
    assert json.loads(capsys.readouterr().out) == {"values": [None, None, 1.5], "path": "a"}


def test_a_plan_has_its_steps(printed: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path))
    plan = printed("plan", repository / "configs" / "quickstart.yaml")
    assert set(plan) == {"steps", "notes", "warnings"}
    assert {step["state"] for step in plan["steps"]} == {"to run"}
    assert all(len(step["fingerprint"]) == 64 for step in plan["steps"])


def test_corpora_are_listed_and_checked(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBGRAFT_DATA", raising=False)
    everyday, _ = printed("corpora", "list")["corpora"]
    assert everyday["languages"] == ["en", "de"] and everyday["segments"]["dev"] == 500
    fields = printed("corpora", "check", "everyday")["fields"]
    assert [(field["split"], field["field"]) for field in fields][:2] == [("train", "source"), ("train", "target")]
    assert fields[0]["segments"] == 20_000 and fields[0]["words"] > 100_000


def test_scores_have_names_and_signatures(printed: Any, tmp_path: Path) -> None:
    for name in ("outputs", "references"):
        (tmp_path / name).write_text("a small test of all words\nanother sentence is here\n")
    paths = ("--hypotheses", tmp_path / "outputs", "--references", tmp_path / "references")
    evaluated = printed("evaluate", *paths)
    scores = {score["name"]: score for score in evaluated["scores"]}
    assert evaluated["sentences"] == 2 and scores["BLEU"]["value"] == pytest.approx(100)
    assert "tok:13a" in scores["BLEU"]["signature"]


def test_advice_has_each_vocabulary(printed: Any, tmp_path: Path) -> None:
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(tmp_path / "marian")
    (tmp_path / "de.txt").write_text("".join(f"{line}\n" for line in toys.german(900, 7)))
    advice = printed("advise", tmp_path / "marian", "--text", tmp_path / "de.txt")
    assert advice["verdict"].startswith("Verdict: ") and advice["lines"] == 900 and advice["options"][0]["size"] == 90
    assert all(option["tokens_per_sentence"] > 0 for option in advice["options"])
    assert advice["worth_adding"][0]["saved"] > 0 and advice["seconds"]["body"] > 0


def test_the_doctor_lists_findings(printed: Any) -> None:
    findings = printed("doctor")["findings"]
    assert all(set(finding) == {"ok", "text"} for finding in findings)
    assert any(finding["text"].startswith("torch ") for finding in findings)
