"""Frozen tables under rows that were drawn at random are reported, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.plan_warnings import frozen_random_rows

SYSTEMS = (
    "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: random, initialiser: random}, {name: matched, initialiser: random-matched, train: all},"
    " {name: none, pretraining: none}, {name: frozen, initialiser: random, embedding_learning_rate: 0}]"
)


def message(repository: Path, *changes: str) -> list[str]:
    lines = frozen_random_rows(load(repository / "configs" / "quickstart.yaml", Experiment, [SYSTEMS, *changes]))
    assert all("stay so" in line for line in lines)
    return [line.split()[1].rstrip(":") for line in lines]


def test_only_systems_whose_random_rows_stay_are_named(repository: Path) -> None:
    assert message(repository) == ["frozen"]
    assert message(repository, "finetune.train=body") == ["random", "none", "frozen"]
    assert message(repository, "finetune.embedding_learning_rate=0") == ["random", "matched", "none", "frozen"]
