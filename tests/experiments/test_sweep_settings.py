"""The report's description of a system by its settings alone."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.manifest import sweep_point
from subgraft.pipeline.stages.report import SweepPoint

ROWS = (
    "systems=[{name: mean, initialiser: mean}, {name: attached, initialiser: mean, tie_to_sources: true},"
    " {name: avg, initialiser: avg}, {name: held, initialiser: avg, vocabulary_min_count: 10,"
    " rare_tokens: {min_count: 9, learning_rate_factor: 0.25, l2_to_init: 2}},"
    " {name: avg-attached, initialiser: avg, tie_to_sources: true},"
    " {name: patt, initialiser: patt, kd_weight: 0.5, generator_steps: 7, copy_shared_tokens: false},"
    " {name: tuned, initialiser: mean, learning_rate: 5.0e-4, embedding_learning_rate: 2.0e-3},"
    " {name: frozen, initialiser: mean, embedding_learning_rate: 0}, {name: rows, initialiser: mean, train: new-rows}]"
)


def test_rows_are_of_one_family_only_where_they_differ_in_size_and_steps_alone(repository: Path) -> None:
    experiment = load(repository / "configs" / "quickstart.yaml", Experiment, [ROWS])
    assert {system.name: sweep_point(system, experiment) for system in experiment.systems} == {
        "mean": SweepPoint(family="mean", variant="", generator_steps=None),
        "attached": SweepPoint(family="mean, attached", variant="attached", generator_steps=None),
        "avg": SweepPoint(family="avg", variant="", generator_steps=0),
        "held": SweepPoint(
            family="avg, pieces used 10 times, tokens below 9 at ×0.25, pulled at 2",
            variant="pieces used 10 times, tokens below 9 at ×0.25, pulled at 2",
            generator_steps=0,
        ),
        "avg-attached": SweepPoint(family="avg, attached", variant="attached", generator_steps=0),
        "tuned": SweepPoint(
            family="mean, learning rate 0.0005, tables at 0.002",
            variant="learning rate 0.0005, tables at 0.002",
            generator_steps=None,
        ),
        "frozen": SweepPoint(family="mean, tables frozen", variant="tables frozen", generator_steps=None),
        "rows": SweepPoint(family="mean, new-rows trained", variant="new-rows trained", generator_steps=None),
        "patt": SweepPoint(family="patt, λ 0.5, no seen rows copied", variant="no seen rows copied", generator_steps=7),
    }
