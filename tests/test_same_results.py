"""The record of a version's results has everything that the tables of the package name, and shows differences."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from recorded_experiments import ALLOCATIONS, EXPERIMENTS, NETWORK, STAND_INS, write_inputs
from subgraft.config.experiment import Experiment
from subgraft.config.models import ModelSettings
from subgraft.data.tasks.registry import TASKS
from subgraft.embeddings.methods.registry import METHODS
from subgraft.modeling.conditioning.variants.registry import VARIANTS
from subgraft.orchestration.store.step import Step, in_order
from subgraft.pipeline.stages.registry import STAGES
from subgraft.training.objectives.registry import OBJECTIVES

same_results: Any = importlib.import_module("same_results")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Experiment], list[Step]]:
    """All experiments, and the steps of these and of all allocations."""
    place = tmp_path_factory.mktemp("planned")
    write_inputs(place)
    # Only a training makes a network that can be imported, and `imported-network` is planned when it is recorded.
    pipelines = [same_results.planned(place, name) for name in EXPERIMENTS if name != NETWORK]
    reports = [*(each.report for each in pipelines)]
    reports += [same_results.planned_allocation(place, name).report for name in ALLOCATIONS]
    return [each.experiment for each in pipelines], in_order(reports)


def test_every_stage_is_recorded(planned: tuple[list[Experiment], list[Step]]) -> None:
    recorded = {step.stage.stage_name for step in planned[1]} | {NETWORK}
    assert recorded == {stage.stage_name for stage in STAGES}


def test_every_entry_of_the_packages_tables_is_recorded(planned: tuple[list[Experiment], list[Step]]) -> None:
    experiments, steps = planned
    systems = [system for each in experiments for system in each.systems]
    assert {each.task for each in experiments} == set(TASKS)
    assert {system.initialiser for system in systems} == {*METHODS, None}
    assert {system.conditioning for system in systems} == {*VARIANTS, None}
    families = {model.model_fields["family"].default for model in get_args(get_args(ModelSettings)[0])}
    assert {each.model.family for each in experiments} == families
    recipes = json.dumps([step.stage.model_dump(mode="json") for step in steps])
    assert not [kind for kind in OBJECTIVES if f'"kind": "{kind}"' not in recipes]


def test_inputs_stand_in_for_those_of_shipped_configurations(repository: Path) -> None:
    assert {*STAND_INS} <= {path.stem for path in (repository / "configs").glob("*.yaml")}


@pytest.mark.slow
def test_an_experiment_that_is_recorded_twice_is_the_same() -> None:
    before, after = (same_results.record(["checkpoint"]) for _ in range(2))
    assert list(same_results.differences(before, after)) == []
    (report,) = (entry for name, entry in before.items() if name == "checkpoint/report/report")
    assert {"report.html", "report.md", "table.json", "plots/costs.png"} <= report["files"].keys()


def test_differences_are_shown_and_are_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"a": {"files": {"one": "1", "two": "2"}}, "b": 1, "c": [1]}
    after = {"a": {"files": {"one": "1", "two": "3"}}, "c": [1], "d": 1}
    for name, content in (("before", before), ("after", after)):
        (tmp_path / name).write_text(json.dumps(content))
    codes = []
    for other in ("after", "before"):
        monkeypatch.setattr("sys.argv", ["", "compare", str(tmp_path / "before"), str(tmp_path / other)])
        codes.append(same_results.main())
    assert codes == [1, 0]
    shown = capsys.readouterr().out.splitlines()
    assert shown[:5] == ["differs: a", '    -  "two": "2"', '    +  "two": "3"', "gone: b", "new: d"]
    assert shown[5] == "no difference in 3 entries"
