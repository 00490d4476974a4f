"""One holder at a time, and none that is dead."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from subgraft.base import locks
from subgraft.base.locks import Lock, report_long_waits

HOLD = (
    "import sys, time; from pathlib import Path; from subgraft.base.locks import Lock\n"
    "lock = Lock.take(Path(sys.argv[1])); print(lock is not None, flush=True); time.sleep(600)"
)
# Each writer counts up a file under the lock, with a pause between reading and writing.
COUNT = (
    "import sys, time; from pathlib import Path; from subgraft.base.locks import Lock\n"
    "file = Path(sys.argv[1]) / 'count'\n"
    "for _ in range(25):\n"
    "    with Lock.wait(file.with_suffix('.lock'), 'counts', seconds=0.001):\n"
    "        number = int(file.read_text()); time.sleep(0.001); file.write_text(str(number + 1))"
)
# A seccomp filter that answers flock as Lustre does where it is mounted without locks; everything else passes.
WITHOUT_LOCKS = """
import ctypes, errno, struct, sys
from pathlib import Path
ERRNO, ALLOW = 0x00050000 | getattr(errno, sys.argv[3]), 0x7FFF0000
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[2])), (0x06, 0, 0, ERRNO), (0x06, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
from subgraft.base.errors import OperationalError
from subgraft.base.locks import Lock
try:
    Lock.take(Path(sys.argv[1]))
except OperationalError as error:
    print(error)
"""
FLOCK = {"x86_64": 73, "aarch64": 32}


def test_of_two_that_want_it_one_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first = Lock.take(path)
    assert first is not None
    assert Lock.take(path) is None, "also within one process"
    first.release()
    assert not path.exists()
    with Lock.wait(path, "holds it", lambda: pytest.fail("nobody else has it")):
        assert Lock.take(path) is None


def test_any_thread_may_release_it(tmp_path: Path) -> None:
    lock = Lock.take(tmp_path / "a.lock")
    assert lock is not None
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    again = Lock.take(tmp_path / "a.lock")
    assert again is not None
    again.release()


def test_a_killed_holder_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        assert Lock.take(path) is None
        messages: list[str] = []
        killer = threading.Timer(0.3, holder.kill)
        killer.start()
        with Lock.wait(path, "holds it", lambda: messages.append("waiting"), seconds=0.01):
            assert messages == ["waiting"]
        killer.join()


def test_a_long_wait_says_what_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locks, "REPORT_AFTER_SECONDS", 0.2)
    path, said = tmp_path / "a.lock", list[str]()
    for say in (said.append, None):
        held = Lock.take(path)
        assert held is not None
        threading.Timer(0.5, held.release).start()
        with report_long_waits(say) if say else nullcontext(), Lock.wait(path, "counts", seconds=0.01):
            pass
    assert said == [f"waiting for another process, which counts and holds {path}"]
    assert capsys.readouterr().err.splitlines() == said, "without a callback it is written to standard error"


def test_many_writers_take_turns(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    writers = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert (tmp_path / "count").read_text() == "100"


def test_a_file_that_cannot_be_made_is_the_systems_own_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        Lock.take(tmp_path / "file" / "a.lock")


@pytest.mark.skipif(platform.machine() not in FLOCK, reason="the number of flock is not known here")
@pytest.mark.parametrize("answer", ["ENOSYS", "ENOLCK", "EOPNOTSUPP"])
def test_a_file_system_without_locks_is_reported(tmp_path: Path, answer: str) -> None:
    command = [sys.executable, "-c", WITHOUT_LOCKS, str(tmp_path / "a.lock"), str(FLOCK[platform.machine()]), answer]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path / 'a.lock'}: this file system has no locks\n  Set SUBGRAFT_HOME to ")
