"""Devices that this machine lacks are reported at once, before Ray is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_searches import searchable
from subgraft.base.errors import UserError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.resources import gpu_shortage, gpus_here, require_gpus
from subgraft.orchestration.execution.runner import job_for
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


def test_gpus_that_are_not_here_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_here() == 0
    assert gpu_shortage(Runtime()) == ""
    assert gpu_shortage(Runtime(gpus_per_worker=1, workers=2)) == "2 GPUs asked for, and this machine has none"
    with pytest.raises(UserError, match=r"1 GPU asked for.*\n.*--address"):
        require_gpus(Runtime(gpus_per_worker=1))


@pytest.mark.parametrize("command", ["run", "search"])
def test_a_run_without_its_gpu_ends_within_seconds_and_makes_nothing(
    repository: Path, tmp_path: Path, command: str
) -> None:
    config = repository / "configs" / "quickstart.yaml" if command == "run" else searchable(tmp_path)
    environment = {**os.environ, "SUBGRAFT_HOME": str(tmp_path / "home"), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("RAY_ADDRESS", None)
    words = [command, str(config), "runtime.gpus_per_worker=1"]
    ended = subprocess.run(
        [sys.executable, "-m", "subgraft", *words], env=environment, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 2, ended.stderr
    assert "this machine has none" in ended.stderr and "Traceback" not in ended.stderr
    assert not (tmp_path / "home").exists()


def test_a_run_is_held_to_its_cores(tmp_path: Path) -> None:
    runtime = Runtime(cpus=2, pretrain_cpus=8, cpus_per_step=1)
    for stage, cores in (("pretrain", 2), ("finetune", 1)):
        assert job_for(_step(stage), Store(tmp_path), runtime, Provenance()).cpus == cores


@pytest.mark.ray
def test_ray_on_this_machine_has_no_more_cores_than_a_run_takes() -> None:
    script = (
        "from subgraft.orchestration.execution.cluster import cluster\n"
        "from subgraft.config.runtime import Runtime; import ray\n"
        "with cluster(Runtime(cpus=3)): print(ray.cluster_resources()['CPU'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=200)
    assert ended.stdout.strip() == "3.0", ended.stderr


def _step(stage: str) -> Step:
    return Step(ToyKind(stage, 1, nothing).of(Stage()), stage)
