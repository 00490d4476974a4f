"""A machine whose memory runs out: Ray ends the step, which is retried a limited number of times and reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private.utils import get_system_memory, get_used_memory  # type: ignore[attr-defined]

pytestmark = pytest.mark.ray

DRIVER = """
import json, sys, time
from pathlib import Path
from subgraft.base.errors import OperationalError
from subgraft.orchestration.execution.runner import run
from subgraft.config.runtime import Runtime
from subgraft.training.stage import Stage
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

class Hungry(Stage):
    stage_name = "wait"
    revision = 1

    def run(self, inputs, out, context):
        return take_memory(context)

def take_memory(context):
    (context.work / f"attempt-{len(list(context.work.glob('attempt-*')))}").touch()
    taken = []
    for _ in range(36):
        taken.append(b"x" * 2**28)
        time.sleep(0.1)
    time.sleep(300)
    return {}

if __name__ == "__main__":
    import hungry_driver  # by its name, so that Ray's processes find the stage

    store = Store(Path(sys.argv[1]))
    step = Step(hungry_driver.Hungry(), "hungry")
    try:
        run(store, [step], Runtime(max_failures=1))
    except OperationalError as error:
        attempts = len(list(store.work(step).glob("attempt-*")))
        Path(sys.argv[2]).write_text(json.dumps([error.exit_code, store.find(step), attempts, str(error)]))
"""
GIB = 2**30


@pytest.mark.slow
@pytest.mark.skipif(get_system_memory() - get_used_memory() < 11 * GIB, reason="needs 11 GiB of free memory")
def test_a_step_that_takes_too_much_is_not_tried_for_ever(tmp_path: Path) -> None:
    (tmp_path / "hungry_driver.py").write_text(DRIVER)
    # As Ray counts, which heeds the limit of a container. Its own processes take one of the four.
    allowed = (get_used_memory() + 4 * GIB) / get_system_memory()
    environment = {**os.environ, "RAY_memory_usage_threshold": f"{allowed:.3f}"}
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment.pop("RAY_ADDRESS", None)
    result_file = tmp_path / "result.json"
    command = [sys.executable, str(tmp_path / "hungry_driver.py"), str(tmp_path / "home"), str(result_file)]
    subprocess.run(command, env=environment, check=True, timeout=600)
    code, record, attempts, message = json.loads(result_file.read_text())
    assert (code, record) == (1, None), message
    assert attempts in (1, 2), "tried once more; it may be ended before it begins"
    assert "hungry" in message and "running out of memory" in message and "the same command continues" in message
