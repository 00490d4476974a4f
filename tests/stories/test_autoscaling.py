"""The node types of cluster.yaml under Ray's own autoscaler: from no workers to several for a run, and back to none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from fake_clusters import fake_cluster
from ray_heads import Head
from small_experiments import tiny, written
from whole_runs import run_config

pytestmark = pytest.mark.ray

Node = dict[str, Any]


def _workers(up: Head) -> list[Node]:
    return [node for node in up.nodes() if not node["is_head_node"]]


@pytest.mark.slow
def test_workers_come_for_a_run_and_go_after_it(repository: Path, tmp_path: Path) -> None:
    config = written(tmp_path, tiny(seeds="[1, 2]"))
    with fake_cluster(repository / "cluster.yaml", idle_minutes=0.5) as up:
        assert _workers(up) == []
        settings = ("pretrain.epochs=1", "runtime.gpus_per_worker=1", "--address", up.gcs)
        said = run_config(config, tmp_path / "home", *settings, environment=up.environment)
        assert "[done]     report" in said
        came = _workers(up)
        assert sum("GPU" not in node["resources_total"] for node in came) >= 1
        assert sum("GPU" in node["resources_total"] for node in came) >= 2, "stages waited for one another"
        assert len(list((tmp_path / "home").glob("store/evaluate/*/record.json"))) == 4
        deadline = time.monotonic() + 300
        while any(node["state"] == "ALIVE" for node in _workers(up)):
            assert time.monotonic() < deadline, "idle workers stay"
            time.sleep(1)
