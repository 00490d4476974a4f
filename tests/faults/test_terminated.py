"""A run that is sent SIGTERM, as by `timeout`, a scheduler or `ray job stop`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from small_experiments import written
from subgraft.orchestration.tracking.server import Server
from traced_training import CONFIG

pytestmark = pytest.mark.ray

ENDLESS = ("pretrain.epochs=null", "pretrain.max_steps=100000", "pretrain.batch_size=400")


@pytest.mark.slow
def test_it_ends_at_once_in_one_line_and_is_recorded(
    tmp_path: Path, recovered: Callable[[str, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    run = subprocess.Popen(
        [sys.executable, "-m", "subgraft", "run", str(written(tmp_path, CONFIG)), *ENDLESS],
        env=os.environ | {"SUBGRAFT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while not any("train_loss" in log.read_text() for log in home.glob("work/*/events.jsonl")):
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.2)
        sent = time.monotonic()
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    recovered("SIGTERM: until the run has ended", time.monotonic() - sent)
    assert run.returncode == 143, said
    *_, stopped, last = said.splitlines()
    assert stopped.startswith("[stopped]  pretrain on upstream")
    assert last == "subgraft: stopped; the same command continues"
    assert not any(word in said for word in ("Traceback", "SIGTERM", "@ ")), said
    server = Server(home)
    (parent,) = server.recent(2)
    statuses = {server.client.get_run(one.id).info.status for one in (parent, *server.children(parent))}
    assert "KILLED" in statuses and "RUNNING" not in statuses
    assert not list((home / "tracking").iterdir()), "its record is complete"
