"""Curves over a setting: the commands that make their results, and lines of the evaluations."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from PIL import Image

from curves import main
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
    finetune="{max_steps: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
    systems="[{name: plain, vocabulary: upstream}]",
)
KEY = "finetune.max_train_examples"


def test_curves_of_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    asked, out = [str(config), KEY, "20", "40", "60"], tmp_path / "out"
    assert main([*asked, "--out", str(out)]) == 2
    assert "none of these systems" in capsys.readouterr().err
    assert main([*asked, "--change", "seeds=[1]", "--commands"]) == 0
    commands = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert [command[-1] for command in commands] == [f"{KEY}={count}" for count in (20, 40, 60)]
    reached = {}
    for command in (commands[0], commands[2]):
        systems = Pipeline(load(config, Experiment, command[3:]), tmp_path).systems
        for step in in_order([steps.evaluate for steps in systems]):
            perform(Job(step, home, Runtime(), 1, 0, False, Provenance.here()))
        evaluation = json.loads((Store(home).path(systems[0].evaluate) / "evaluation.json").read_text())
        reached[command[-1]] = evaluation["scores"]["BLEU"]["value"]
    assert main([*asked, "--change", "seeds=[1]", "--out", str(out)]) == 0
    table = capsys.readouterr().out
    few, many = (f"{value:.2f}" for value in reached.values())
    assert f"| plain on en-de | {few} | – | {many} |" in table
    assert Image.open(io.BytesIO((out / "curves.png").read_bytes())).width > 1000
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [(line["value"], line["seeds"]) for line in lines] == [("20", 1), ("60", 1)]


def test_values_other_than_numbers_are_evenly_spaced() -> None:
    from curves import Result, draw

    measured = [Result(value, "plain", "de-en", 2, score) for value, score in (("two", 3.0), ("seven", 9.0))]
    assert draw(measured, "upstream.corpus", ["two", "seven"]) != draw(
        measured[:1], "upstream.corpus", ["two", "seven"]
    )
