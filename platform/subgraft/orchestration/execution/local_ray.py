"""A Ray for one run on this machine: on the loopback address only, with a token, in a private folder of this user."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import make_private
from subgraft.orchestration.execution.ray_folder import FOLDER

OBJECT_STORE_BYTES = 100_000_000  # artifacts travel as files; Ray's own objects are small
LOOPBACK = "127.0.0.1"


def start(folder: Path, *, dashboard: bool = False, cpus: int | None = None) -> str:
    """Start Ray and connect to it; returns the dashboard as host:port, or an empty string. `ray.shutdown` stops it.

    `folder` must be private to this user (`ray_folder`); `cpus` are the cores that steps share, all if None.

    Raises UserError if others can read the dashboard's token, and whatever Ray raises if it does not start.
    """
    import ray
    from ray._private import ray_constants

    from subgraft.orchestration.execution.import_path import InstalledCode

    # Ray asks for tokens on a local cluster unless RAY_AUTH_MODE says otherwise (which is read when Ray is imported).
    # The token is this run's own; with a dashboard it is Ray's, in a file, so that a browser can be given it. It is set
    # for good: Ray keeps a process's first.
    if not os.environ.get("RAY_AUTH_TOKEN"):
        os.environ["RAY_AUTH_TOKEN"] = ensure_private_token() if dashboard else secrets.token_hex(32)
    clustered = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the environment when Ray was imported
    try:
        with _environment(_only_here(folder)):
            context = ray.init(
                "local",
                num_cpus=cpus,
                include_dashboard=dashboard,
                dashboard_host=LOOPBACK,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
                job_config=InstalledCode(),
                _temp_dir=str(folder),
            )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clustered
    return context.dashboard_url or ""


def local_folder() -> Path | None:
    """The folder that all processes of a local Ray share; None outside of one."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def _only_here(folder: Path) -> dict[str, str]:
    """Environment variables for the processes of this Ray, and for nothing that is started later."""
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    return {
        FOLDER: str(folder),
        "PYTHONSAFEPATH": "1",  # no process that they start in turn looks for code in the current directory
        # As Ray has it on macOS and Windows: its node has the loopback address, and every server of it listens there.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_enable_metrics_collection": "0",  # would be served without a token
        # What a worker group talks over, whatever the host's name resolves to.
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
    }


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# The token of Ray's dashboard: in a file that only this user can read, so that a browser can be given it.
#
# Whoever has it can run commands as this user. Ray would write it readable by everybody.

OTHERS, WRITABLE = 0o077, 0o022


def ensure_private_token() -> str:
    """The token, created if absent. RAY_AUTH_TOKEN, where set, takes precedence over the file.

    Raises UserError, with the command that fixes it, if others can read or replace the file.
    """
    if given := os.environ.get("RAY_AUTH_TOKEN"):
        return given
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    token = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if not named:
        token.parent.mkdir(mode=0o700, exist_ok=True)
        _check(token.parent, token)
    if not token.exists():
        make_private(token, secrets.token_hex(32))
    _check(token, token)
    return token.read_text(encoding="utf-8").strip()


def _check(path: Path, token: Path) -> None:
    about = path.stat()
    if about.st_uid == os.getuid() and not about.st_mode & OTHERS:
        return
    mend, why = [f"chmod 700 {path}"] if path != token else [], ""
    if token.exists() and (token.stat().st_mode & OTHERS or path.stat().st_mode & WRITABLE):
        mend, why = [*mend, f"rm {token}"], ": others may know this one, and a new one is made"
    raise UserError(
        f"the token of Ray's dashboard is open to others (mode {about.st_mode & 0o777:04o})",
        where=str(path),
        hint=f"`{' && '.join(mend)}`, and run again{why}",
    )
