"""What each rule of selection keeps, from finetunings whose curves hold dev and test scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selection import main, selected
from small_experiments import tiny, written
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.execution.worker import Job, perform
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.training.progress import SELECTIONS

CONFIG = tiny(
    pretrain="{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2}",
    finetune="{max_steps: 3, evaluate_at: [1, 2], batch_size: 500, precision: fp32, dev_sentences: 2}",
)


def test_each_rule_keeps_what_it_goes_by() -> None:
    points = [
        {"step": 0.0, "bits_per_character": 3.0, "bleu": 1.0, "chrf": 5.0},
        {"step": 9.0, "bits_per_character": 2.0, "bleu": 3.0, "chrf": 6.0},
        {"step": 18.0, "bits_per_character": 2.5, "bleu": 2.0, "chrf": 7.0},
    ]
    assert {rule: point["step"] for rule, point in selected(points).items()} == {
        "bleu": 9,
        "chrf": 18,
        "likelihood": 9,
        "last": 18,
    }


def test_dev_scores_are_those_of_the_finetuning_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    asked = [str(config), "--test-sentences", "3", "--out", str(tmp_path / "curves.json")]
    assert main(asked) == 2
    assert "not in the store" in capsys.readouterr().err
    systems = Pipeline(load(config, Experiment), tmp_path).systems
    for step in in_order([steps.finetune for steps in systems]):
        perform(Job(step, home, Runtime(), 1, 0, False, Provenance.here()))
    assert main(asked) == 0
    table = capsys.readouterr().out
    assert all(f"{rule}: step" in table for rule in SELECTIONS) and "mean seed 1" in table
    curves = json.loads((tmp_path / "curves.json").read_text())
    for steps in systems:
        ran = json.loads((Store(home).path(steps.finetune) / "curve.json").read_text())
        ours = curves[f"{steps.system.name} seed 1"]
        assert [point["step"] for point in ours] == [0, 1, 2, 3]
        assert [point["bits_per_character"] for point in ours] == [p["values"]["bits_per_character"] for p in ran]
        assert all("test_chrf" in point for point in ours)
