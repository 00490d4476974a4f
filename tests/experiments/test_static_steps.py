"""Systems share the steps that they have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps

CONFIGS = Path(__file__).resolve().parent.parent.parent / "configs"
METHODS = ("mean", "word2vec", "word2vec-mapped", "focus", "wechsel", "omp")


def experiment(tmp_path: Path, **changes: object) -> Experiment:
    inputs = load(CONFIGS / "quickstart.yaml", Experiment).model_dump()
    inputs["systems"] = [{"name": method, "initialiser": method} for method in METHODS]
    return Experiment.model_validate({**inputs, **changes})


def by_method(pipeline: Pipeline) -> dict[str, SystemSteps]:
    return {steps.system.name: steps for steps in pipeline.systems}


def test_static_embeddings_are_shared_by_the_systems_and_seeds_that_need_the_same(tmp_path: Path) -> None:
    pipeline = Pipeline(experiment(tmp_path), tmp_path)
    steps = by_method(pipeline)
    prints = {name: steps[name].static["decoder"].fingerprint for name in METHODS if name != "mean"}
    assert prints["word2vec"] == prints["word2vec-mapped"]
    assert prints["focus"] == prints["wechsel"] == prints["omp"]
    assert prints["word2vec"] != prints["focus"]
    assert not steps["mean"].static
    seeds = {
        system.transfer.fingerprint for system in pipeline.systems if system.system.name == "omp" and system.transfer
    }
    assert len(pipeline.experiment.seeds) == 2
    assert len(seeds) == 1


def test_they_are_as_wide_as_the_model_unless_configured_otherwise(tmp_path: Path) -> None:
    def dimensions(made: Experiment) -> int:
        recipe = by_method(Pipeline(made, tmp_path))["focus"].static["decoder"].stage
        return int(recipe.settings.dimensions)  # type: ignore[attr-defined]

    made = experiment(tmp_path)
    assert dimensions(made) == made.model.d_model
    systems = [{"name": "focus", "initialiser": "focus"}]
    assert dimensions(experiment(tmp_path, systems=systems, static_embeddings={"dimensions": 300})) == 300


def test_each_side_has_its_own_and_the_report_bills_them(tmp_path: Path) -> None:
    pipeline = Pipeline(experiment(tmp_path, sides=("encoder", "decoder")), tmp_path)
    static = by_method(pipeline)["omp"].static
    recipes = {side: step.stage.side for side, step in static.items()}  # type: ignore[attr-defined]
    assert recipes == {"encoder": "source", "decoder": "target"}
    reported, *_ = (system.inputs for system in pipeline.report.stage.systems if system.name == "omp")
    for side, step in static.items():
        assert step.inputs["vocabulary"] is pipeline.vocabularies.downstream[side]
        assert pipeline.report.inputs[reported.static[side]].fingerprint == step.fingerprint
    assert set(reported.new_rows) == set(reported.static.values()), "which is what its new rows are billed by"


def test_vectors_taken_as_they_are_must_be_as_wide_as_the_table(tmp_path: Path) -> None:
    with pytest.raises((UserError, ValueError), match="system word2vec takes static embeddings as they are"):
        experiment(tmp_path, static_embeddings={"dimensions": 7})
