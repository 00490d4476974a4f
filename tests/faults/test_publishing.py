"""Publishing under kills and races, with real processes: an artifact is absent or verified, never partial."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Json

PROGRAM = """
import sys
from pathlib import Path
from subgraft.training.stage import Stage
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

class Written(Stage):
    stage_name = "corpus"
    revision = 1

    files: int
    size: int = 20_000

def step(files):
    # Not a Stage, which comes with torch: many processes start here.
    return Step(Written(files=files), "everyday")

def publish(home, files, name):
    def write(out):
        for number in range(files):
            (out / f"{number}.bin").write_bytes(bytes([number]) * 20_000)
        (out / "writer").write_text(name)
        return {"files": files}

    return Store(home).publish(step(files), write, Provenance())

if __name__ == "__main__":
    files, name = int(sys.argv[1]), sys.argv[2]
    print("ready", flush=True)
    for line in sys.stdin:
        home = Path(line.rstrip())
        published = publish(home, files, name)
        problems = []
        read = Store(home, problems.append).find(step(files))
        print(published.digest, read.digest if read else problems, flush=True)
"""
KILLS = 20


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "publish_one.py"
    path.write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "publish_one", raising=False)
    return path


def step_of(files: int) -> Step:
    import publish_one  # type: ignore[import-not-found]

    made = publish_one.step(files)
    assert isinstance(made, Step)
    return made


class Writer:
    """A process that publishes into each home that it receives, and then reads the artifact as any reader would."""

    def __init__(self, program: Path, files: int, name: str) -> None:
        command = [sys.executable, str(program), str(files), name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def begin(self, home: Path) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{home}\n")
        self.process.stdin.flush()

    def finish(self) -> list[str]:
        """The digests of the published artifact and of the one that was read."""
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).split()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


@pytest.fixture
def writers(program: Path) -> Iterator[Callable[[int, int], list[Writer]]]:
    """Starts some writers of so many files, and ends them after the test."""
    started: list[Writer] = []

    def start(count: int, files: int) -> list[Writer]:
        more = [Writer(program, files, f"writer {number}") for number in range(count)]
        started.extend(more)
        for writer in more:
            writer.wait_until_ready()
        return more

    yield start
    for writer in started:
        writer.kill()


@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_a_whole_artifact_or_none(
    writers: Callable[[int, int], list[Writer]], tmp_path: Path, recovered: Callable[[str, float], None]
) -> None:
    files, step = 40, step_of(40)
    (calm,) = writers(1, files)
    began = time.monotonic()
    calm.begin(tmp_path / "calm")
    calm.finish()
    duration = time.monotonic() - began

    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the kills: {seed}")
    moments, there, seconds = random.Random(seed), [], []
    for attempt in range(KILLS):
        home = tmp_path / f"home{attempt}"
        (victim,) = writers(1, files)
        victim.begin(home)
        # Some kill before the first file, and never all of them after the end.
        time.sleep((attempt + moments.random()) / KILLS * duration)
        victim.kill()
        problems: list[str] = []
        there.append(Store(home, problems.append).find(step) is not None)
        assert not problems, "a kill must not leave anything at the final place that does not verify"
        began = time.monotonic()
        calm.begin(home)
        published, read = calm.finish()
        seconds.append(time.monotonic() - began)
        assert published == read
        assert not list((home / "store" / ".partial").iterdir()), "the dead writer's files are swept"
    assert not all(there), "no kill came before the end: this test showed nothing"
    recovered("publishing killed: until the artifact is published and verified", max(seconds))


def race(crowd: list[Writer], home: Path, step: Step) -> None:
    """Let them all publish one fingerprint at once: one wins, and each reads what the winner wrote."""
    for writer in crowd:
        writer.begin(home)
    answers = [writer.finish() for writer in crowd]
    record = Store(home).find(step)
    assert record is not None
    assert answers == [[record.digest, record.digest]] * len(crowd)
    winner = (Store(home).path(step) / "writer").read_text()
    assert winner in {f"writer {number}" for number in range(len(crowd))}
    assert not list((home / "store" / ".partial").iterdir())
    assert not (home / "quarantine").exists()


@pytest.mark.parametrize(
    ("count", "rounds"), [(4, 2), pytest.param(16, 50, marks=pytest.mark.slow)], ids=["few", "sixteen-by-fifty"]
)
def test_of_many_writers_exactly_one_wins(
    count: int, rounds: int, writers: Callable[[int, int], list[Writer]], tmp_path: Path
) -> None:
    crowd = writers(count, 3)
    for number in range(rounds):
        race(crowd, tmp_path / f"home{number}", step_of(3))


def test_a_living_writer_is_not_swept(writers: Callable[[int, int], list[Writer]], tmp_path: Path) -> None:
    store, step = Store(tmp_path / "home"), step_of(3)
    (other,) = writers(1, 3)

    def write(out: Path) -> dict[str, Json]:
        Store(store.home).sweep()
        other.begin(store.home)
        assert len(other.finish()) == 2
        (out / "late").touch()
        return {}

    record = store.publish(step, write)
    assert "late" not in [entry.path for entry in record.files]
