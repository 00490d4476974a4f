"""Only a driver is killed: the rest of its Ray is reported, not used, and removed by a later run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import ray

from subgraft.base.security.local_ray import ray_folder
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster

pytestmark = pytest.mark.ray

DRIVER = """
import time
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster
with cluster(Runtime()):
    import ray
    ray.get(ray.remote(lambda: 0).remote())
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In place of the system's temporary folder."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t-") as name:
        monkeypatch.setenv("RAY_TMPDIR", name)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_next_run_reports_them_and_does_not_use_them(place: Path, recovered: Callable[[str, float], None]) -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None and driver.stdout.readline() == "up\n"
    below = psutil.Process(driver.pid).children(recursive=True)
    (left,) = place.iterdir()
    driver.kill()
    driver.wait()
    killed = time.monotonic()

    said: list[str] = []
    with cluster(Runtime(), say=said.append):
        (node,) = ray.nodes()
        assert node["Alive"] and not node["RayletSocketName"].startswith(f"{left}/")
        assert ray.cluster_resources()["CPU"] >= 1
    assert len(said) == 1 and "of a run that was killed are still ending" in said[0]
    assert any(str(process.pid) in said[0] for process in below)

    psutil.wait_procs(below, timeout=300)
    recovered("a driver killed alone: until the last process of its Ray has ended", time.monotonic() - killed)
    with ray_folder(said.append):
        assert not left.exists()
    assert len(said) == 1 and list(place.iterdir()) == []
