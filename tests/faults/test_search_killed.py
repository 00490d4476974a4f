"""A search whose driver is killed on a cluster that lives on: nothing of it is left there, and it carries on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from small_searches import searchable
from subgraft.experiments.search.trial_results import Ledger, TrialResult

pytestmark = pytest.mark.ray

PROBE = """
import json, sys, ray
from ray.util import placement_group_table
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
total, free = ray.cluster_resources(), ray.available_resources()
held = [name for name in ("CPU", "node:__internal_head__") if free.get(name, 0) != total[name]]
groups = [group["state"] for group in placement_group_table().values()]
print(json.dumps({"held": held, "groups": [state for state in groups if state != "REMOVED"], "ever": len(groups)}))
"""


@dataclass(frozen=True)
class Head:
    """A Ray head of one core that outlives what runs on it."""

    address: str
    environment: dict[str, str]

    def probe(self) -> dict[str, object]:
        """What is held of it, and the placement groups there are and ever were."""
        command = [sys.executable, "-c", PROBE, self.address]
        ended = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True
        )
        content: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
        return content


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture
def head() -> Iterator[Head]:
    """Its folder is short, because the paths of Ray's sockets are limited."""
    environment = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "1" * 64, "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_ADDRESS", None)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus=1"]
        command += [f"--port={port}", f"--temp-dir={folder}", "--node-ip-address=127.0.0.1"]
        command += ["--include-dashboard=false", "--object-store-memory=100000000", "--min-worker-port=0"]
        command += ["--max-worker-port=0", f"--dashboard-agent-listen-port={free_port()}"]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            _wait(lambda: _listens(port), 120, "Ray did not come up")
            yield Head(f"127.0.0.1:{port}", environment)
        finally:
            process.terminate()
            process.wait(timeout=60)


def _listens(port: int) -> bool:
    with socket.socket() as connecting:
        return connecting.connect_ex(("127.0.0.1", port)) == 0


def _wait(until: Callable[[], bool], seconds: float, complaint: str) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.1)


def _start(head: Head, place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "subgraft", "search", str(place / "config.yaml"), "--address", head.address]
    command += ["search.concurrent=1", "finetune.epochs=20"]
    environment = head.environment | {"SUBGRAFT_HOME": str(place / "home")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _trials(place: Path) -> dict[int, TrialResult]:
    result = list(place.glob("home/searches/*/trials.jsonl"))
    return Ledger(result[0]).trials() if result else {}


def _is_in_the_second_finetuning(place: Path) -> bool:
    """Whether a trial is done, and the next has a checkpoint."""
    begun = {path.parent.parent.parent.name for path in place.glob("home/work/*/checkpoints/all/*")}
    done = {path.name for path in place.glob("home/store/*/*")}
    return any(trial.state == "finished" for trial in _trials(place).values()) and bool(begun - done)


@pytest.mark.slow
def test_a_killed_search_leaves_nothing_on_the_cluster_and_carries_on(head: Head, tmp_path: Path) -> None:
    searchable(tmp_path)
    process = _start(head, tmp_path)
    _wait(lambda: process.poll() is not None or _is_in_the_second_finetuning(tmp_path), 400, "it never got so far")
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = _trials(tmp_path)
    assert [trial.state for trial in before.values()] == ["finished", "running"]
    _wait(lambda: head.probe()["held"] == head.probe()["groups"] == [], 120, "the dead search holds the cluster")
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("home/store/*/*/record.json")}
    again = _start(head, tmp_path)
    said, _ = again.communicate(timeout=500)
    assert again.returncode == 0, said
    after = _trials(tmp_path)
    assert [trial.state for trial in after.values()] == ["finished"] * 3
    assert after[1] == before[1], "finished work is not repeated"
    assert after[2].values == before[2].values, "what was begun is done"
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert len(list(tmp_path.glob("home/store/pretrain/*"))) == 1
    left = head.probe()
    assert (left["held"], left["groups"]) == ([], []) and left["ever"]
