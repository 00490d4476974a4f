"""The map over pairs and table rates, from trainings that were done and none that were not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from area_under_curve import MEASURES, area, cells, main
from regime_map import as_markdown
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
    finetune="{epochs: null, max_steps: 5, evaluate_at: [1, 3], batch_size: 500, precision: fp32, dev_sentences: 2}",
)


def test_a_level_curve_has_its_level_and_every_doubling_counts_as_much() -> None:
    assert area([(0, 2.0), (25, 2.0), (1600, 2.0)]) == pytest.approx(2.0)
    assert area([(0, 0.0), (7, 3.0)]) == pytest.approx(1.5)
    # Between 1 + step = 1 and 64 there are six doublings: one of them falls, then nothing changes.
    assert area([(0, 1.0), (1, 0.0), (63, 0.0)]) == pytest.approx(1 / 12)
    with pytest.raises(ValueError, match="one step"):
        area([(0, 1.0)])


def test_a_map_of_finetunings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    settings = ["--pairs", "20", "40", "--table-rates", "0", "4e-3", "--out", str(tmp_path / "out")]
    assert main([str(config), *settings]) == 2
    assert "none of these finetunings" in capsys.readouterr().err and not (tmp_path / "out").exists()
    steps = {}
    for pairs, rate in ((20, 0), (40, 4e-3)):
        changes = [f"finetune.max_train_examples={pairs}", f"finetune.embedding_learning_rate={rate}"]
        steps[pairs, rate] = Pipeline(load(config, Experiment, changes), tmp_path).systems
        for step in in_order([system.finetune for system in steps[pairs, rate]]):
            if Store(home).find(step) is None:
                perform(Job(step, home, Runtime(), 1, 0, False, Provenance.here()))
    assert main([str(config), *settings]) == 0
    written_cells = json.loads((tmp_path / "out" / "map.json").read_text())
    assert [(cell["system"], cell["pairs"], cell["embedding_learning_rate"]) for cell in written_cells] == [
        (system, pairs, rate) for pairs, rate in ((20, 0), (40, 0.004)) for system in ("plain", "mean")
    ]
    _check_area(
        Store(home).path(steps[40, 4e-3][1].finetune) / "curve.json", written_cells[3]["values"]["bits_per_character"]
    )
    assert (tmp_path / "out" / "map.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "out" / "table.md").read_text()
    assert capsys.readouterr().out == table == as_markdown(cells(config, [], [20, 40], [0, 4e-3]), MEASURES)
    assert table.count("20 pairs, frozen") == len(MEASURES) and "40 pairs, 0.004" in table and "**" in table


def _check_area(path: Path, expected: float) -> None:
    """By hand: evaluated at the beginning, after one and three updates, and at the end."""
    curve = json.loads(path.read_text())
    assert [point["step"] for point in curve] == [0, 1, 3, 5]
    bits = [point["values"]["bits_per_character"] for point in curve]
    widths = [math.log(2), math.log(4 / 2), math.log(6 / 4)]
    total = sum(width * (bits[at] + bits[at + 1]) / 2 for at, width in enumerate(widths))
    assert expected == pytest.approx(total / math.log(6))
