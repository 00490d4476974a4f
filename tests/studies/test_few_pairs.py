"""The map of few pairs, from systems that were evaluated and none that were not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from few_pairs import MEASURES, main
from small_experiments import tiny, written
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.execution.worker import Job, perform
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store

CONFIG = tiny(
    pretrain="{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2}",
    finetune="{max_steps: 2, batch_size: 500, precision: fp32, dev_sentences: 2, select: chrf}",
    corpora="{upstream: {folder: upstream}, downstream: {folder: downstream, limit: {train: 60}}}",
)


def test_a_map_of_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    asked = ["--corpus", "downstream", "--pairs", "40", "60", "--table-rates", "0", "--out", str(tmp_path / "out")]
    assert main([str(config), *asked]) == 2
    assert "none of these systems" in capsys.readouterr().err
    changes = ["corpora.downstream.limit.train=40", "finetune.embedding_learning_rate=0"]
    systems = Pipeline(load(config, Experiment, changes), tmp_path).systems
    for step in in_order([steps.evaluate for steps in systems]):
        perform(Job(step, home, Runtime(), 1, 0, False, Provenance.here()))
    assert main([str(config), *asked]) == 0
    table = capsys.readouterr().out
    assert table.count("40 pairs, frozen") == len(MEASURES) and "60 pairs" not in table
    cells = json.loads((tmp_path / "out" / "map.json").read_text())
    assert [(cell["system"], cell["pairs"], cell["seeds"]) for cell in cells] == [("plain", 40, 1), ("mean", 40, 1)]
    evaluation = json.loads((Store(home).path(systems[1].evaluate) / "evaluation.json").read_text())
    assert cells[1]["values"]["chrF"] == evaluation["scores"]["chrF"]["value"]
