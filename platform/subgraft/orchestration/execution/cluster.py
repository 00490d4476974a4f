"""A Ray cluster for one run: the one at an address, or a local one that ends with this process."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError, SubgraftError, Terminated
from subgraft.base.security import terminal_escaping
from subgraft.base.security.local_ray import NO_ROOM, installed_code, is_full, ray_folder, start
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
    import ray

    try:
        if folder:
            return start(folder, dashboard=runtime.dashboard, cpus=runtime.cpus)
        code = installed_code()
        return ray.init(address, log_to_driver=False, logging_level=logging.ERROR, job_config=code).dashboard_url or ""
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
