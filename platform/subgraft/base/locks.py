"""Advisory file locks that are released when their process dies, however it dies (`filelock`, by flock).

They avoid duplicate work and detect dead processes; the correctness of artifacts does not depend on them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from errno import EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path
from types import TracebackType

from filelock import Timeout, UnixFileLock

from subgraft.base.errors import OperationalError
from subgraft.base.security.terminal_escaping import say

# Errors of flock on a file system without locks. filelock's fallback, a lock file whose existence is the lock, would
# survive a killed process.
NO_LOCKS = frozenset({ENOSYS, ENOLCK, EOPNOTSUPP, EINVAL})
REPORT_AFTER_SECONDS = 30.0


def _to_standard_error(line: str) -> None:
    say(line, to=sys.stderr)


_report: ContextVar[Callable[[str], None]] = ContextVar("say", default=_to_standard_error)


@contextmanager
def report_long_waits(say: Callable[[str], None]) -> Iterator[None]:
    """Within this context, `say` is called for every wait for a lock that takes over half a minute."""
    before = _report.set(say)
    try:
        yield
    finally:
        _report.reset(before)


class Lock:
    """An exclusive lock on a file, held until `release` or the death of the process. Any thread may release it."""

    def __init__(self, lock: UnixFileLock) -> None:
        self._lock = lock

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """Acquire the lock, or return None if it is held, by this process or another. Creates the file if necessary.

        Raises OperationalError on a file system without locks, OSError if the file cannot be created.
        """
        lock = UnixFileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            return None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            hint = "Set SUBGRAFT_HOME to a file system that has them, such as a local disk or NFS of version 4."
            raise OperationalError("this file system has no locks", where=str(path), hint=hint) from error
        return cls(lock)

    @classmethod
    def wait(cls, path: Path, activity: str, on_wait: Callable[[], None] = lambda: None, seconds: float = 0.5) -> Lock:
        """Wait for the lock, however long it takes. Raises like `take`.

        Args:
            path: the lock's file.
            activity: what the holder does, for the message after half a minute, such as "downloads the same file".
            on_wait: called once if the lock is held.
            seconds: the polling interval.
        """
        notified, report_at = False, time.monotonic() + REPORT_AFTER_SECONDS
        while (lock := cls.take(path)) is None:
            if not notified:
                on_wait()
                notified = True
            if time.monotonic() > report_at:
                _report.get()(f"waiting for another process, which {activity} and holds {path}")
                report_at = float("inf")
            time.sleep(seconds)
        return lock

    def release(self) -> None:
        """Remove the file, then release it: in this order, so that no process holds a lock on a deleted file."""
        Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
