"""Advice is judged on the shift that was left out, by hand-made scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judged_advice import main
from regime_map import Cell
from subgraft.experiments.fit.priors import PRIORS

Scores = dict[str, float]


def written(place: Path, name: str, cells: dict[tuple[int, float], Scores]) -> str:
    rows = [
        vars(Cell(system, pairs, rate, 1, {"chrF": chrf, "BLEU": 0.0, "bits": 1.0}))
        for (pairs, rate), scores in cells.items()
        for system, chrf in scores.items()
    ]
    (place / f"{name}.json").write_text(json.dumps(rows))
    return f"{name}={place / name}.json"


def test_each_shift_is_advised_by_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laws = written(
        tmp_path,
        "laws",
        {
            (500, 4e-3): {"old": 20.0, "mean": 22.0, "text": 26.0},
            (8000, 4e-3): {"old": 30.0, "mean": 33.0, "text": 33.5},
            (500, 0.0): {"old": 15.0, "mean": 14.0, "text": 16.0},
        },
    )
    # 500 pairs are nearest to 400, and 8,000 to 9,000. Frozen embeddings have no counterpart.
    manuals = written(
        tmp_path,
        "manuals",
        {
            (400, 1e-3): {"old": 10.0, "mean": 11.0, "text": 10.5},
            (9000, 1e-3): {"old": 12.0, "mean": 11.0, "text": 16.0},
        },
    )
    assert main([laws, manuals, "--out", str(tmp_path / "out")]) == 0
    table = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "trained" in line]
    # By manuals' gains: 500 pairs mean (text is behind it), 8,000 text. By laws': 400 text, 9,000 mean, as text was
    # ahead of it by less than a point.
    assert [[*row[:2], row[3]] for row in rows] == [
        ["laws", "500", "mean"],
        ["laws", "8,000", "text"],
        ["manuals", "400", "text"],
        ["manuals", "9,000", "mean"],
    ]
    assert "frozen" not in table
    # Best: text, text, mean, text. Chosen: 22.0, 33.5, 10.5, 11.0; mean: 22.0, 33.0, 11.0, 11.0; old: 20, 30, 10, 12.
    assert "The best system in 1 of 4 settings, one within 1 chrF of it in 2." in table
    assert "over always mean: +0.00; over always old: +1.25." in table


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["laws", "--out", str(tmp_path)]) == 2
    assert "expected SHIFT=FILE" in capsys.readouterr().err
    alone = written(tmp_path, "alone", {(500, 0.0): {"old": 1.0, "mean": 2.0}})
    assert main([alone, "--out", str(tmp_path)]) == 2
    assert "no setting has a counterpart in another shift" in capsys.readouterr().err
    assert main([written(tmp_path, "other", {(500, 0.0): {"old": 1.0}}), "--out", str(tmp_path)]) == 2
    assert "every setting needs the systems old and mean" in capsys.readouterr().err


def test_without_maps_the_measurements_behind_the_advice_are_judged(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    judged = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert len(judged) == len(PRIORS) and {each["shift"] for each in judged} == {prior.shift.name for prior in PRIORS}
