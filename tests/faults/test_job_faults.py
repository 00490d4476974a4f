"""Jobs on a real Ray head: nobody without the token gets in, and a job that was stopped is submitted again."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from interrupted import attempts, await_training, weights
from ray_heads import Head, head
from small_experiments import LONG_PRETRAINING, finish, tiny, written

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def up(home: Path) -> Iterator[Head]:
    with head("--num-cpus=2", environment={"SUBGRAFT_HOME": str(home)}) as one:
        yield one


@pytest.mark.parametrize(("headers", "code"), [({}, 401), ({"Authorization": "Bearer guessed"}, 403)])
def test_a_job_without_the_token_is_refused(up: Head, headers: dict[str, str], code: int) -> None:
    before = up.ask("/api/jobs/")
    json = {"Content-Type": "application/json", **headers}
    request = Request(f"{up.dashboard}/api/jobs/", b'{"entrypoint": "touch /tmp/in"}', json, method="POST")
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=30)
    assert refused.value.code == code
    assert up.ask("/api/jobs/") == before


def _await_end(up: Head, job: str) -> None:
    deadline = time.monotonic() + 60
    while up.status(job) == "RUNNING":
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.2)


def _recorded(home: Path) -> list[str]:
    """How the runs of the experiment ended, in their order, as MLflow has it."""
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        result = database.execute("SELECT status FROM runs WHERE name LIKE 'tiny-%' ORDER BY start_time")
        return [status for (status,) in result]


def test_a_stopped_job_submitted_again_carries_on(repository: Path, up: Head, home: Path, tmp_path: Path) -> None:
    config = written(tmp_path, tiny(pretrain=LONG_PRETRAINING))
    command = ("--runtime-env", "runtime_env.yaml", "--", "python", "jobs/run.py", str(config))
    settings = ("runtime.checkpoint_seconds=0.000001",)
    submitted = up.job("submit", "--no-wait", "--submission-id=first", *command, *settings, cwd=repository)
    assert submitted.returncode == 0, submitted.stdout
    await_training(home, lambda: up.status("first") in ("PENDING", "RUNNING"))
    # As `ray job stop` does, without the seconds that a command takes to start.
    assert up.ask("/api/jobs/first/stop", "POST") == {"stopped": True}
    _await_end(up, "first")
    assert up.status("first") == "STOPPED"

    again = up.job("submit", "--submission-id=second", *command, *settings, cwd=repository)
    assert (again.returncode, up.status("second")) == (0, "SUCCEEDED"), again.stdout
    first, second = attempts(home, "pretrain")
    assert first[0] == 1 < second[0] <= first[-1] + 1, "the second attempt started from the beginning"
    assert _recorded(home) == ["KILLED", "FINISHED"]
    finish(config)
    assert weights(home) == weights(config.parent / "home") != {}
