"""A Ray cluster for one run: the one at an address, or a local one that ends with this process.

A local Ray listens on the loopback address only, requires a token, and uses a private folder of this user. Ray itself
would create a world-writable `ray` in the shared temporary folder: another user of the machine could write into a run's
logs and replace its sockets.
"""

from __future__ import annotations

import gc
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from subgraft.base import terminal_escaping
from subgraft.base.errors import OperationalError, SubgraftError, Terminated, UserError
from subgraft.base.files import make_private
from subgraft.base.locks import Lock
from subgraft.config.runtime import Runtime

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A worker group may have to wait for the steps that run before it.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "86400",
    "RAY_TRAIN_ENABLE_CONTROLLER_STRUCTURED_LOGGING": "0",
    # By default Ray runs stages at the lowest priority, behind all other processes of the machine.
    "RAY_worker_niceness": "0",
    # Threads that wait for one another would spin, which on a busy machine keeps the awaited one from running
    # (benchmarks/busy_threads.py).
    "OMP_WAIT_POLICY": "PASSIVE",
    # glibc would free the blocks of every training step and allocate them again (sizes in bytes). Much larger values
    # retain blocks that fit no later batch, and a worker grows by gigabytes.
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    # oneDNN caches prepared bf16 products by shape, and every batch has other shapes: the cache only needs to hold
    # those of one batch, which all layers share.
    "LRU_CACHE_CAPACITY": "16",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
}
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
OTHERS, WRITABLE = 0o077, 0o022  # permissions


def _to_standard_error(line: str) -> None:
    terminal_escaping.say(line, to=sys.stderr)


@contextmanager
def cluster(
    runtime: Runtime, address: str | None = None, say: Callable[[str], None] = _to_standard_error
) -> Iterator[str]:
    """Connect to `address` (or RAY_ADDRESS), or start a local cluster; disconnect, or stop it, at the end.

    If Ray is already initialised in this process, that cluster is used and left running. A local cluster listens on the
    loopback address only and requires a token. Its processes end with this one, even if this one is killed. While the
    cluster is up, SIGTERM raises Terminated in the main thread.

    Args:
        runtime: Cores, dashboard, and how often steps are repeated.
        address: Of a running cluster.
        say: Receives lines about remains of killed runs, and where Ray's logs are if this run fails.

    Yields:
        The dashboard as host:port, or an empty string if there is none.

    Raises:
        OperationalError: If no cluster is available.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Otherwise Ray would retry a step that needs more memory than there is forever.
    os.environ.setdefault("RAY_task_oom_retries", str(runtime.max_failures))
    address = address or os.environ.get("RAY_ADDRESS")
    import ray

    if ray.is_initialized():
        yield ""
        return
    previous_handler = signal.getsignal(signal.SIGTERM)
    with ray_folder(say) if not address else nullcontext() as folder:
        dashboard = _start_or_connect(runtime, address, folder)
        with _sigterm_raises(previous_handler):
            try:
                yield dashboard
            finally:
                _shut_down()


def _shut_down() -> None:
    """Shut Ray down with the garbage collector disabled.

    If another thread (such as tracking's) collected a cycle that holds a Ray reference just after Ray closed its own
    side, Ray would end the process: exit status 1 without a message.
    """
    import ray

    collecting = gc.isenabled()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if collecting:
            gc.enable()


def _start_or_connect(runtime: Runtime, address: str | None, folder: Path | None) -> str:
    try:
        return start(folder, dashboard=runtime.dashboard, cpus=runtime.cpus) if folder else _connect(address)
    except SubgraftError:
        raise
    except Exception as error:  # Ray raises a plain Exception for a node that does not start in time
        if folder and is_full(folder):
            raise OperationalError(
                "there is no room for Ray's sockets and logs", where=str(folder), hint=NO_ROOM
            ) from error
        hint = "Run the same command again; a busy machine may have been too slow."
        raise OperationalError(f"Ray is not available: {error}", where=address or "local cluster", hint=hint) from error


@contextmanager
def _sigterm_raises(previous_handler: Any) -> Iterator[None]:
    """Raise Terminated on SIGTERM within the block; afterwards restore the previous handler.

    Ray's own handlers would print a trace and abort the process while it cleans up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = False

    def terminate(number: int, frame: object) -> None:
        nonlocal received
        if not received:  # a second signal must not interrupt the cleanup
            received = True
            raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if received:  # while waiting, Ray replaces a handler's exception by a plain KeyboardInterrupt
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _connect(address: str | None) -> str:
    import ray

    code = _installed_code()
    return ray.init(address, log_to_driver=False, logging_level=logging.ERROR, job_config=code).dashboard_url or ""


def _installed_code() -> Any:
    """A Ray job without the driver's current and script directories, which Ray puts first on its workers' path.

    A configuration and its text may come from anyone: a `torch.py` next to them must not be executed.
    """
    from ray.job_config import JobConfig

    class InstalledCode(JobConfig):
        def _get_proto_job_config(self) -> Any:
            self._py_driver_sys_path = []
            return super()._get_proto_job_config()  # type: ignore[no-untyped-call]

    return InstalledCode()


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
        os.environ["RAY_AUTH_TOKEN"] = ensure_private_token() if dashboard else secrets.token_hex(32)
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
                job_config=_installed_code(),
                _temp_dir=str(folder),
            )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clustered
    return context.dashboard_url or ""


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


def ensure_private_token() -> str:
    """The token of Ray's dashboard, created if absent. RAY_AUTH_TOKEN, where set, takes precedence over the file.

    Its holder can run commands as this user, and Ray would write it readable by everybody. Raises UserError, with the
    command that fixes it, if others can read or replace the file.
    """
    if token_set := os.environ.get("RAY_AUTH_TOKEN"):
        return token_set
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    token = Path(path) if path else Path.home() / ".ray" / "auth_token"
    if not path:
        token.parent.mkdir(mode=0o700, exist_ok=True)
        _require_private(token.parent, token)
    if not token.exists():
        make_private(token, secrets.token_hex(32))
    _require_private(token, token)
    return token.read_text(encoding="utf-8").strip()


def _require_private(path: Path, token: Path) -> None:
    status = path.stat()
    if status.st_uid == os.getuid() and not status.st_mode & OTHERS:
        return
    commands, reason = [f"chmod 700 {path}"] if path != token else [], ""
    if token.exists() and (token.stat().st_mode & OTHERS or path.stat().st_mode & WRITABLE):
        commands, reason = [*commands, f"rm {token}"], ": others may know this token, and a new one is created"
    raise UserError(
        f"the token of Ray's dashboard is open to others (mode {status.st_mode & 0o777:04o})",
        where=str(path),
        hint=f"`{' && '.join(commands)}`, and run again{reason}",
    )
