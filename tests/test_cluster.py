"""The cluster's description passes Ray's own validation, and the job finds its way to the command line."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
from ray.autoscaler._private.util import prepare_config, validate_config
from ruamel.yaml import YAML

Config = dict[str, Any]


@pytest.fixture
def cluster(repository: Path) -> Config:
    config: Config = YAML(typ="safe").load(repository / "cluster.yaml")
    return config


def _prepared(cluster: Config) -> Config:
    """As `ray up` sees it, before it asks AWS anything."""
    prepared: Config = prepare_config(copy.deepcopy(cluster))
    validate_config(prepared)
    return prepared


def test_ray_accepts_the_cluster(cluster: Config) -> None:
    prepared = _prepared(cluster)
    assert set(prepared["available_node_types"]) == {"head", "cpu", "gpu"}


def test_the_validation_notices_mistakes(cluster: Config) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _prepared({**cluster, "idle_timeout_minuts": 5})
    with pytest.raises(ValueError, match="head_node_type"):
        _prepared({**cluster, "head_node_type": "heed"})


def test_workers_come_and_go_and_the_head_does_no_work(cluster: Config) -> None:
    types = _prepared(cluster)["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0} and types["head"]["max_workers"] == 0
    workers = [types[name] for name in ("cpu", "gpu")]
    assert all(worker["min_workers"] == 0 < worker["max_workers"] for worker in workers)
    assert sum(worker["max_workers"] for worker in workers) <= cluster["max_workers"]
    assert types["gpu"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}


def test_every_container_has_the_store_and_asks_for_the_token(cluster: Config) -> None:
    prepared = _prepared(cluster)
    options = " ".join(prepared["docker"]["run_options"])
    home = re.search(r"--env SUBGRAFT_HOME=(\S+)", options)
    volume = re.search(r"--volume (\S+):(\S+)", options)
    assert home and volume and home[1].startswith(f"{volume[2]}/")
    assert any(f"/ {volume[1]}" in command for command in prepared["initialization_commands"]), "not mounted"
    assert "--env RAY_AUTH_MODE=token" in options
    assert "/home/ray/.ray/auth_token" in prepared["file_mounts"]


def test_the_dashboard_listens_on_its_own_machine_only(cluster: Config) -> None:
    (start,) = [command for command in cluster["head_start_ray_commands"] if "ray start" in command]
    assert "--dashboard-host=127.0.0.1" in start


def test_the_images_have_the_ray_that_is_tested_here(cluster: Config) -> None:
    for image in (cluster["docker"]["head_image"], cluster["docker"]["worker_image"]):
        assert image.startswith(f"rayproject/ray:{ray.__version__}-py311-")


@pytest.mark.parametrize("job", ["run.py", "search.py"])
def test_a_job_is_a_command(repository: Path, tmp_path: Path, job: str) -> None:
    command = [sys.executable, str(repository / "jobs" / job), "absent.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "no such configuration file" in done.stderr
    assert len((repository / "jobs" / job).read_text(encoding="utf-8").splitlines()) <= 30
