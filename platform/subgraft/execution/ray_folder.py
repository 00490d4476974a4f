"""Where the Ray of a local run keeps its sockets and logs: a folder that only this user can enter.

Ray itself makes `ray` in the shared temporary folder, and all of its folders writable by everybody: another user of the
machine could write into a run's logs and put a socket of theirs in the place of the run's.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraft.errors import OperationalError, UserError
from subgraft.locks import Lock

PREFIX = "sg-ray-"  # short, as the paths of sockets must be
RAY = "ray"  # Ray opens to everybody the folder that it is given, so that is one below ours
LOCK = "lock"  # held by the run; the file is there, and free, where a run was killed
LONGEST_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/dash_MetricsHead"
SOCKET_BYTES = 107 if sys.platform == "linux" else 103  # of sun_path, without the closing zero
KEPT_SECONDS = 7 * 24 * 3600
PATIENCE_SECONDS = 5.0


@contextmanager
def ray_folder(say: Callable[[str], None]) -> Iterator[Path]:
    """A new folder for one Ray, removed at the end. After a failure that is no user's mistake it is kept, and told.

    Runs that were killed are cleared up after first, and `say` is told of processes of theirs that are still there.
    Raises OperationalError where no temporary folder will do.
    """
    parent = _parent()
    _clear_up(parent, say)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # mode 0700
    with Lock.wait(folder / LOCK, lambda: None):
        (folder / RAY).mkdir()
        try:
            yield folder / RAY
        except (UserError, KeyboardInterrupt):
            _remove(folder)
            raise
        except Exception:
            say(f"Ray's logs of this run are kept for a week: {folder / RAY / 'session_latest' / 'logs'}")
            raise
        _remove(folder)


def _parent() -> Path:
    """RAY_TMPDIR or the system's temporary folder, where the paths of Ray's sockets fit into a socket's address."""
    candidates = [os.environ.get("RAY_TMPDIR", ""), tempfile.gettempdir(), "/tmp"]
    for place in (Path(named) for named in candidates if named):
        longest = place / f"{PREFIX}12345678" / RAY / LONGEST_SOCKET
        if place.is_dir() and len(os.fsencode(longest)) <= SOCKET_BYTES:
            return place
    hint = (
        f"Set RAY_TMPDIR to a folder whose path has at most {SOCKET_BYTES - len(str(longest)) + len(str(place))} bytes."
    )
    raise OperationalError(
        "no temporary folder for Ray's sockets", where=" or ".join(filter(None, candidates)), hint=hint
    )


def _remove(folder: Path) -> None:
    """Remove it with whatever processes that are about to end still write into it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _clear_up(parent: Path, say: Callable[[str], None]) -> None:
    """Remove what killed runs left, unless a process of theirs is still there, and what failed runs left long ago."""
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        try:
            about = folder.lstat()
            if about.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():
                continue
            killed = (folder / LOCK).exists() and (folder / RAY).exists()
            if not killed and time.time() - about.st_mtime < KEPT_SECONDS:
                continue
            lock = Lock.take(folder / LOCK)
        except OSError:  # another process removed it just now
            continue
        if lock is None:  # that run goes on
            continue
        with lock:
            processes = users_of(folder / RAY)
            if not processes:
                _remove(folder)
        if processes:
            (folder / LOCK).touch()
            say(
                f"Ray's processes of a run that was killed are still ending ({', '.join(map(str, processes))}), which "
                "takes about a minute. This run has a Ray of its own, and nothing to do with them."
            )


def users_of(folder: Path) -> list[int]:
    """The processes of this user that have a file below a folder open."""
    import psutil  # Ray brings it

    found = []
    for process in psutil.process_iter():
        try:
            if process.uids().real == os.getuid() and any(
                Path(opened.path).is_relative_to(folder) for opened in process.open_files()
            ):
                found.append(process.pid)
        except psutil.Error:  # ended meanwhile, or not ours to ask
            continue
    return found
