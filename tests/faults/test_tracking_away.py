"""A tracking server that is away for a minute of a training: the training goes on, and its record has no gap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from small_experiments import written
from subgraft.orchestration.tracking.server import Server
from traced_training import CONFIG
from tracking_servers import TrackingServer
from whole_runs import again_if_busy

pytestmark = pytest.mark.ray

AWAY_SECONDS = 60.0
# So many steps take longer than that by far, and are stopped when enough has been seen.
ENDLESS = ("pretrain.epochs=null", "pretrain.max_steps=100000", "pretrain.batch_size=400")


def start(config: Path, home: Path, uri: str) -> subprocess.Popen[str]:
    """A run that records on a server."""
    return subprocess.Popen(
        [sys.executable, "-m", "subgraft", "run", str(config), *ENDLESS],
        env=os.environ | {"SUBGRAFT_HOME": str(home), "MLFLOW_TRACKING_URI": uri},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def steps_logged(home: Path) -> list[tuple[int, float]]:
    """(step, loss) of the training that runs, as its own log has them."""
    results = []
    for log in home.glob("work/*/events.jsonl"):
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n") and '"train_loss"' in line:
                event = json.loads(line)
                results.append((event["step"], event["values"]["train_loss"]))
    return sorted(results)


def wait(run: subprocess.Popen[str], what: str, there: Callable[[], bool]) -> float:
    """Wait until something is there, while the run goes on; the seconds it took."""
    began = time.monotonic()
    while not there():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() - began < 600, what
        time.sleep(0.2)
    return time.monotonic() - began


def curve_on_server(home: Path, uri: str) -> list[tuple[int, float]]:
    """The same as the server has it."""
    server = Server(home, uri)
    with server.answering():
        parent, *_ = server.recent(5)  # the newest
        results = [child.id for child in server.children(parent) if child.name.startswith("pretrain")]
        points = [point for run in results for point in server.client.get_metric_history(run, "train_loss")]
    return sorted((point.step, point.value) for point in points)


@pytest.mark.slow
def test_away_for_a_minute_nothing_is_lost(
    request: pytest.FixtureRequest,
    tracking_server: TrackingServer,
    tmp_path: Path,
    recovered: Callable[[str, float], None],
) -> None:
    home = tmp_path / "home"
    begin = partial(start, written(tmp_path, CONFIG), home, tracking_server.uri)
    process = begin()
    request.addfinalizer(lambda: process.kill())
    while not steps_logged(home):
        if process.poll() is not None:
            process = again_if_busy(process, begin)
        time.sleep(0.2)
    wait(process, "nothing was recorded", lambda: len(curve_on_server(home, tracking_server.uri)) > 0)

    tracking_server.kill()
    before = len(steps_logged(home))
    time.sleep(AWAY_SECONDS)
    during = len(steps_logged(home)) - before
    assert process.poll() is None and during > 20, "the training went on"
    tracking_server.start()
    known = len(steps_logged(home))
    seconds = wait(
        process, "it was not caught up with", lambda: len(curve_on_server(home, tracking_server.uri)) >= known
    )
    recovered("the tracking server back after a minute: until it has what it missed", seconds)

    process.kill()
    said, _ = process.communicate(timeout=300)
    assert said.count("tracking is not available") == 1 and "Traceback" not in said
    recorded = curve_on_server(home, tracking_server.uri)
    # The next run would tell of the last steps before the kill; of those before them none is missing or doubled.
    assert len(recorded) >= known and recorded == steps_logged(home)[: len(recorded)]
