"""Advisory file locks that die with their process.

They save work and tell the living from the dead; no artifact's correctness rests on them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType


class Claim:
    """An exclusive lock on a file, released by `release` or by the death of the process, however it dies."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        """The claim, or None while another process holds it. The file is made where it is absent."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            # A file system without locks: everyone gets the claim, as if there were none.
            return cls(path, descriptor)
        if os.fstat(descriptor).st_nlink == 0:  # removed by its last holder between our open and our lock
            os.close(descriptor)
            return cls.take(path)
        return cls(path, descriptor)

    @classmethod
    def wait(cls, path: Path, waiting: Callable[[], None], seconds: float = 0.5) -> Claim:
        """The claim, however long it takes; `waiting` is called once if it takes any time."""
        told = False
        while (claim := cls.take(path)) is None:
            if not told:
                waiting()
                told = True
            time.sleep(seconds)
        return claim

    def release(self) -> None:
        """Remove the file and let go of it."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
