"""A Ray cluster for one run: the one at an address, or a local one that lives and dies with this process."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from subgraft.config.runtime import Runtime
from subgraft.errors import OperationalError, Terminated

OBJECT_STORE_BYTES = 100_000_000  # artifacts travel as files; Ray's own objects are small
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A worker group may have to wait for the steps that run before it.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "86400",
    "RAY_TRAIN_ENABLE_CONTROLLER_STRUCTURED_LOGGING": "0",
    # Ray would run stages at the lowest priority, behind whatever else the machine does.
    "RAY_worker_niceness": "0",
    # glibc would give the blocks of every training step back and fetch them anew (sizes in bytes). Much larger values
    # keep blocks that no later batch fits into, and a worker grows by gigabytes.
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    # bf16 products on a CPU are prepared, and kept, for every shape; every batch has another one.
    "LRU_CACHE_CAPACITY": "16",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}


@contextmanager
def cluster(runtime: Runtime, address: str | None = None) -> Iterator[str]:
    """Connect to `address` (or RAY_ADDRESS), or start a cluster here; leave it, or stop it, at the end.

    What it yields is where the dashboard is, as host:port, if this process knows of one.

    Where Ray is up in this process already, that cluster is used and left up. A local cluster listens on this machine
    only and asks for a token. Its processes end with this one, even if that is killed. Raises OperationalError when no
    cluster is to be had. While it is up, SIGTERM raises Terminated in the main thread.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Ray would try a step again for ever that takes more memory than there is.
    os.environ.setdefault("RAY_task_oom_retries", str(runtime.max_failures))
    address = address or os.environ.get("RAY_ADDRESS")
    import ray

    if ray.is_initialized():
        yield ""
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        dashboard = _connect(address) if address else _start(runtime)
    except Exception as error:  # a node that does not come up in time is no more than an Exception
        hint = "Run the same command again; a busy machine may have been too slow."
        raise OperationalError(f"Ray is not available: {error}", where=address or "local cluster", hint=hint) from error
    with _terminated(before):
        try:
            yield dashboard
        finally:
            ray.shutdown()


@contextmanager
def _terminated(before: Any) -> Iterator[None]:
    """SIGTERM, while the block lasts, is an interrupt like that of a keyboard; then it is handled as `before`.

    Ray has set handlers of its own. They print a trace and abort the process while it clears up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = False

    def terminate(number: int, frame: object) -> None:
        nonlocal received
        if not received:  # a second one must not break off the clearing up
            received = True
            raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if received:  # Ray's waiting makes a plain KeyboardInterrupt of whatever a handler raises
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _connect(address: str) -> str:
    import ray

    return ray.init(address, log_to_driver=False, logging_level=logging.ERROR).dashboard_url or ""


def _start(runtime: Runtime) -> str:
    import ray

    # Ray asks for tokens on a local cluster unless RAY_AUTH_MODE says otherwise (which is read when Ray is imported).
    # The token is this run's own; with a dashboard it is Ray's, in a file, so that a browser can be given it.
    if not runtime.dashboard:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    context = ray.init(
        "local",
        include_dashboard=runtime.dashboard,
        dashboard_host="127.0.0.1",
        object_store_memory=OBJECT_STORE_BYTES,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    return context.dashboard_url or ""
