"""A Ray of this user alone: on the loopback address, with a token, in a private folder, of installed code.

Ray itself would create a world-writable `ray` in the shared temporary folder: another user of the machine could write
into a run's logs and replace its sockets.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.locks import Lock
from subgraft.base.security.private_files import ray_token

PREFIX = "sg-ray-"  # short, because the length of socket paths is limited
RAY = "ray"  # Ray's folder, which it makes readable by everybody: it is inside a private one
FOLDER = "SUBGRAFT_RAY_FOLDER"  # environment variable of Ray's processes
LOCK = "lock"  # held by the run; after a kill the file exists and is unlocked
LONGEST_SOCKET = "session_2026-01-01_00-00-00_000000_4194304/sockets/dash_MetricsHead"
SOCKET_BYTES = 107 if sys.platform == "linux" else 103  # of sun_path, without the closing zero
LOG_RETENTION_SECONDS = 7 * 24 * 3600
PATIENCE_SECONDS = 5.0
MIN_FREE_BYTES = 1 << 20  # with less, Ray fails to start without a reason
NO_ROOM = "Make room there, or set RAY_TMPDIR to another folder with a short path."
OBJECT_STORE_BYTES = 100_000_000  # artifacts travel as files; Ray's own objects are small
LOOPBACK = "127.0.0.1"


@contextmanager
def ray_folder(say: Callable[[str], None]) -> Iterator[Path]:
    """A new folder for one Ray, removed at the end; after an internal failure it is retained, with a line to `say`.

    Folders of killed runs are removed first, and `say` receives a line about their processes that are still running.
    Raises OperationalError if no temporary folder is suitable.
    """
    parent = _temporary_folder()
    _remove_old_folders(parent, say)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # mode 0700
    except OSError as error:
        raise OperationalError(
            f"no folder for Ray can be made: {error.strerror}", where=str(parent), hint=NO_ROOM
        ) from error
    with Lock.wait(folder / LOCK, "looks at this new folder"):
        (folder / RAY).mkdir()
        try:
            yield folder / RAY
        except (UserError, KeyboardInterrupt):
            _remove(folder)
            raise
        except Exception:
            say(f"Ray's logs of this run remain for a week: {folder / RAY / 'session_latest' / 'logs'}")
            raise
        _remove(folder)


def _temporary_folder() -> Path:
    """RAY_TMPDIR or the system's temporary folder, whichever is short enough for the paths of Ray's sockets."""
    candidates = [os.environ.get("RAY_TMPDIR", ""), tempfile.gettempdir(), "/tmp"]
    for folder in (Path(path) for path in candidates if path):
        longest = folder / f"{PREFIX}12345678" / RAY / LONGEST_SOCKET
        if os.access(folder, os.W_OK | os.X_OK) and len(os.fsencode(longest)) <= SOCKET_BYTES:
            return folder
    max_bytes = SOCKET_BYTES - len(f"/{PREFIX}12345678/{RAY}/{LONGEST_SOCKET}")
    hint = f"Set RAY_TMPDIR to a folder that can be written to and whose path has at most {max_bytes} bytes."
    where = " or ".join(filter(None, candidates))
    raise OperationalError("no temporary folder for Ray's sockets", where=where, hint=hint)


def is_full(folder: Path) -> bool:
    """Whether a full disk explains that Ray did not start."""
    return shutil.disk_usage(folder).free < MIN_FREE_BYTES


def _remove(folder: Path) -> None:
    """Remove the folder once no process uses it: a worker that is still starting would create its files again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (users := users_of(folder / RAY)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in (process for process, started in users.items() if started):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_old_folders(parent: Path, say: Callable[[str], None]) -> None:
    """Remove folders of killed runs without living processes, and old folders of failed runs."""
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        try:
            status = folder.lstat()
            if status.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():
                continue
            killed = (folder / LOCK).exists() and (folder / RAY).exists()
            if not killed and time.time() - status.st_mtime < LOG_RETENTION_SECONDS:
                continue
            lock = Lock.take(folder / LOCK)
        except OSError:  # another process removed it just now
            continue
        if lock is None:  # that run is still active
            continue
        with lock:
            processes = users_of(folder / RAY)
            if not processes:
                _remove(folder)
        if processes:
            (folder / LOCK).touch()
            say(
                f"Ray's processes of a run that was killed are still ending ({', '.join(map(str, processes))}), which "
                "takes about a minute. This run uses another Ray."
            )


def users_of(folder: Path) -> dict[int, bool]:
    """Other processes of this user that use a Ray folder, and whether that Ray is known to have started them.

    Ray's agents overwrite their environment, but have files open in the folder, as its readers have.
    """
    import psutil  # Ray brings it

    users = {}
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            started = process.environ().get(FOLDER) == str(folder)
            if started or any(Path(file.path).is_relative_to(folder) for file in process.open_files()):
                users[process.pid] = started
        except psutil.Error:  # it has ended, or may not be inspected
            continue
    return users


def start(folder: Path, *, dashboard: bool = False, cpus: int | None = None) -> str:
    """Start Ray and connect to it; returns the dashboard as host:port, or an empty string. `ray.shutdown` stops it.

    `folder` must be private to this user (`ray_folder`); `cpus` are the cores that steps share, all if None.

    Raises UserError if others can read the dashboard's token, and whatever Ray raises if it does not start.
    """
    import ray
    from ray._private import ray_constants

    # Ray asks for tokens on a local cluster unless RAY_AUTH_MODE says otherwise (which is read when Ray is imported).
    # The token belongs to this run; with a dashboard it is the one in Ray's file, so that a user can enter it in a
    # browser. It stays set, because Ray caches the first token of a process.
    if not os.environ.get("RAY_AUTH_TOKEN"):
        os.environ["RAY_AUTH_TOKEN"] = ray_token() if dashboard else secrets.token_hex(32)
    clustered = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the environment when Ray was imported
    try:
        with _environment(_local_environment(folder)):
            context = ray.init(
                "local",
                num_cpus=cpus,
                include_dashboard=dashboard,
                dashboard_host=LOOPBACK,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
                job_config=installed_code(),
                _temp_dir=str(folder),
            )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clustered
    return context.dashboard_url or ""


def installed_code() -> Any:
    """A Ray job without the driver's current and script directories, which Ray puts first on its workers' path.

    A configuration and its text may come from anyone: a `torch.py` next to them must not be executed.
    """
    from ray.job_config import JobConfig

    class InstalledCode(JobConfig):
        def _get_proto_job_config(self) -> Any:
            self._py_driver_sys_path = []
            return super()._get_proto_job_config()  # type: ignore[no-untyped-call]

    return InstalledCode()


def local_folder() -> Path | None:
    """The folder that all processes of a local Ray share; None outside of one."""
    path = os.environ.get(FOLDER)
    return Path(path) if path else None


def _local_environment(folder: Path) -> dict[str, str]:
    """Environment variables for the processes of this Ray, and for nothing that is started later."""
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    return {
        FOLDER: str(folder),
        "PYTHONSAFEPATH": "1",  # no process that they start in turn looks for code in the current directory
        # Ray's default on macOS and Windows: its node has the loopback address, on which all its servers listen.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_enable_metrics_collection": "0",  # metrics would be served without a token
        # The network interface of worker groups, independent of the address that the host's name resolves to.
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
    }


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
