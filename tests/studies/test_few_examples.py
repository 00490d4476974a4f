"""Curves over numbers of examples, from what was evaluated and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from few_examples import MEASURES, main
from seeds import band
from small_classes import classed
from small_experiments import finish_steps
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline

SYSTEMS = "[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]"
FINETUNE = (
    "{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2, max_train_examples: 20, resample_subset: true}"
)


def test_curves_are_of_the_sizes_and_seeds_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = classed(tmp_path, systems=SYSTEMS, finetune=FINETUNE, seeds="[1, 2, 3]")
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    asked = [str(config), "--examples", "20", "60", "--out", str(tmp_path / "out")]
    assert main(asked) == 2
    assert "none of these systems" in capsys.readouterr().err
    for examples, seeds in ((20, 2), (60, 1)):
        systems = Pipeline(load(config, Experiment, [f"finetune.max_train_examples={examples}"]), tmp_path).systems
        finish_steps([steps.evaluate for steps in systems[:seeds]], tmp_path)
    assert main(asked) == 0
    table = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[:3] for row in table[2:]] == [["| 20", "ours", "2"], ["| 60", "ours", "1"]]
    assert "±" in table[2] and "±" not in table[3], "one seed has no band"
    curves = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert all(len(point["values"][measure]) == len(point["seeds"]) for point in curves for measure in MEASURES)
    bits = curves[0]["values"]["bits_per_character"]
    assert bits[0] != bits[1], "each seed has examples of its own"
    assert (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_band_is_students_t() -> None:
    mean, reach = band([1.0, 2.0, 3.0])
    assert mean == 2.0 and reach == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
