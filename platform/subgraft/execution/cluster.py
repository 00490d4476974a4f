"""A Ray cluster for one run: the one at an address, or a local one that lives and dies with this process."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from subgraft.config.runtime import Runtime
from subgraft.errors import OperationalError

if TYPE_CHECKING:
    from ray._private.worker import BaseContext

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

    What it yields is where the dashboard is, as host:port, if there is one that this process has been told of.

    Where Ray is up in this process already, that cluster is used and left up. A local cluster listens on this machine
    only and asks for a token. Its processes end with this one, even if that is killed. Raises OperationalError when no
    cluster is to be had.
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
    try:
        context = ray.init(address, log_to_driver=False, logging_level=logging.ERROR) if address else _start(runtime)
    except Exception as error:  # a node that does not come up in time is no more than an Exception
        hint = "Run the same command again; a busy machine may have been too slow."
        raise OperationalError(f"Ray is not available: {error}", where=address or "local cluster", hint=hint) from error
    try:
        yield context.dashboard_url or ""
    finally:
        ray.shutdown()


def _start(runtime: Runtime) -> BaseContext:
    import ray

    # Ray asks for tokens on a local cluster unless RAY_AUTH_MODE says otherwise (which is read when Ray is imported).
    # The token is this run's own; with a dashboard it is Ray's, in a file, so that a browser can be given it.
    if not runtime.dashboard:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    return ray.init(
        "local",
        include_dashboard=runtime.dashboard,
        dashboard_host="127.0.0.1",
        object_store_memory=OBJECT_STORE_BYTES,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
