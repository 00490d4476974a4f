"""Ray heads that tests start for themselves: on free ports, with a token of their own, next to any other Ray."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

RAY = str(Path(sys.executable).with_name("ray"))
LISTENING = ("--port", "--dashboard-port", "--dashboard-agent-listen-port", "--ray-client-server-port")


@dataclass(frozen=True)
class Head:
    """A Ray head that is up. environment: what a process needs to reach it. gcs: host and port."""

    gcs: str
    dashboard: str
    token: str
    environment: Mapping[str, str]

    def job(self, *arguments: str, cwd: Path | None = None, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """`ray job ARGUMENTS`, with both outputs as one."""
        return subprocess.run(
            [RAY, "job", *arguments],
            cwd=cwd,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ask(self, path: str, method: str = "GET") -> Any:
        """What the dashboard answers, as JSON."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = Request(f"{self.dashboard}{path}", headers=headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def status(self, job: str) -> str:
        """The state of a job: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""
        return str(self.ask(f"/api/jobs/{job}")["status"])

    def nodes(self) -> list[dict[str, Any]]:
        """Every node there has been, with node_id, is_head_node, state (ALIVE or DEAD) and resources_total."""
        return list(self.ask("/api/v0/nodes")["data"]["result"]["result"])


@contextmanager
def head(*options: str, environment: Mapping[str, str] = {}, port: int | None = None) -> Iterator[Head]:
    """`ray start --head OPTIONS`, ended with everything that it started. port: where workers and drivers find it.

    Its environment is this one, without what concerns Ray and without PYTHONPATH, and with `environment`.
    """
    token = secrets.token_hex(16)
    place = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets' paths must be short
    ports = free_ports(len(LISTENING))
    ports[0] = port or ports[0]
    url = f"http://127.0.0.1:{ports[1]}"
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHONPATH"))}
    surroundings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0"}
    # A job's `python` is this one.
    surroundings |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
    command = [RAY, "start", "--head", "--block", f"--temp-dir={place}", "--dashboard-host=127.0.0.1"]
    command += [f"{option}={number}" for option, number in zip(LISTENING, ports, strict=True)]
    command += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=100000000", *options]
    with (place / "start.txt").open("w") as said:
        started = subprocess.Popen(command, env=surroundings, stdout=said, stderr=said, start_new_session=True)
    try:
        _await(url, ports[2], token, started, place / "start.txt")
        yield Head(f"{own_address()}:{ports[0]}", url, token, surroundings | {"RAY_API_SERVER_ADDRESS": url})
    finally:
        if started.poll() is not None:
            print(f"the head ended by itself:\n{(place / 'start.txt').read_text()}")
        while left := processes_with(token):
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=5)
        shutil.rmtree(place, ignore_errors=True)


def own_address() -> str:
    """Of this machine, as Ray's nodes know it."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nothing listens on."""
    with ExitStack() as open_sockets:
        bound = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in bound]


def _await(url: str, agent: int, token: str, started: subprocess.Popen[bytes], said: Path) -> None:
    """Until the jobs API answers and the agent, which starts the jobs, listens on its port."""
    deadline = time.monotonic() + 180
    request = Request(f"{url}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    while True:
        assert started.poll() is None, said.read_text()
        try:
            with urlopen(request, timeout=10), socket.create_connection(("127.0.0.1", agent), timeout=10):
                return
        except (URLError, TimeoutError, ConnectionError):
            assert time.monotonic() < deadline, f"no head after three minutes:\n{said.read_text()}"
            time.sleep(0.5)


def processes_with(token: str) -> list[psutil.Process]:
    """The processes of a head: those whose environment has its token."""
    results = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RAY_AUTH_TOKEN") == token:
                results.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return results
