"""What the report says of a system by its settings alone."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.configfile import load
from subgraft.config.experiment import Experiment
from subgraft.stages.report_systems import Design, design

SYSTEMS = (
    "systems=[{name: mean, initialiser: mean}, {name: attached, initialiser: mean, attached: true},"
    " {name: avg, initialiser: avg}, {name: held, initialiser: avg, vocabulary_min_count: 10,"
    " rare_tokens: {below: 9, learning_rate_factor: 0.25, pull: 2}},"
    " {name: avg-attached, initialiser: avg, attached: true},"
    " {name: patt, initialiser: patt, kd_weight: 0.5, generator_steps: 7, keep_seen: false},"
    " {name: tuned, initialiser: mean, learning_rate: 5.0e-4, embedding_learning_rate: 2.0e-3},"
    " {name: frozen, initialiser: mean, embedding_learning_rate: 0}]"
)


def test_systems_are_of_one_family_only_where_they_differ_in_size_and_steps_alone(repository: Path) -> None:
    experiment = load(repository / "configs" / "quickstart.yaml", Experiment, [SYSTEMS]).model_dump(mode="json")
    assert {system["name"]: design(system, experiment) for system in experiment["systems"]} == {
        "mean": Design("mean", "", None),
        "attached": Design("mean, attached", "attached", None),
        "avg": Design("avg", "", 0),
        "held": Design(
            "avg, pieces used 10 times, tokens below 9 at ×0.25, pulled at 2",
            "pieces used 10 times, tokens below 9 at ×0.25, pulled at 2",
            0,
        ),
        "avg-attached": Design("avg, attached", "attached", 0),
        "tuned": Design("mean, learning rate 0.0005, tables at 0.002", "learning rate 0.0005, tables at 0.002", None),
        "frozen": Design("mean, tables frozen", "tables frozen", None),
        "patt": Design("patt, λ 0.5, no seen rows kept", "no seen rows kept", 7),
    }
