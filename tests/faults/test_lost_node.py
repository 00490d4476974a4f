"""A GPU node that goes away in the middle of a training, as spot nodes do: the run ends with the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fake_clusters import fake_cluster
from interrupted import attempts, await_training, weights
from ray_heads import processes_with
from small_experiments import LONG_PRETRAINING, finish, tiny, written

pytestmark = pytest.mark.ray


def _remove_node_of(stage: str, token: str) -> None:
    """Kill, with everything that it runs, the raylet whose worker is at a stage."""
    worker = next(one for one in processes_with(token) if one.cmdline()[0].startswith(f"ray::{stage}"))
    raylet = worker.parent()
    assert raylet is not None and "raylet" in raylet.name()
    for process in (raylet, *raylet.children(recursive=True)):
        process.kill()


@pytest.mark.slow
def test_a_node_lost_in_a_training_costs_time_alone(repository: Path, tmp_path: Path) -> None:
    config, home = written(tmp_path, tiny(pretrain=LONG_PRETRAINING)), tmp_path / "elsewhere"
    settings = ("checkpoint_seconds=0.000001", "gpus_per_worker=1", "max_failures=2")
    with fake_cluster(repository / "cluster.yaml", idle_minutes=0.5) as up, (tmp_path / "said").open("w") as said:
        command = [sys.executable, "-m", "subgraft", "run", str(config), "--address", up.gcs]
        running = psutil.Popen(
            [*command, *(f"runtime.{setting}" for setting in settings)],
            env={**up.environment, "SUBGRAFT_HOME": str(home)},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        await_training(home, running.is_running)
        _remove_node_of("pretrain", up.token)
        assert running.wait(timeout=700) == 0, (tmp_path / "said").read_text()
        lost = [node for node in up.nodes() if node["state"] == "DEAD" and "GPU" in node["resources_total"]]
    assert lost
    first, second = attempts(home, "pretrain")
    assert first[0] == 1 < second[0] <= first[-1] + 1, "the second attempt started from the beginning"
    finish(config)
    assert weights(home) == weights(config.parent / "home") != {}
