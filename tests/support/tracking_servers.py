"""Real tracking servers on this machine, which can be stopped and started again."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.security.private_files import password_in
from subgraft.base.security.tracking_gate import PASSWORD, USER

ENVIRONMENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int) -> None:
    """Until something listens there."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise AssertionError("no server came up")


class TrackingServer:
    """Keeps runs and artifacts in a folder, and serves both under `uri`."""

    def __init__(self, folder: Path) -> None:
        self.port = closed_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a process group of its own, and wait until it listens."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self._folder}/server.db"]
        command += ["--artifacts-destination", str(self._folder / "artifacts")]
        quiet = subprocess.DEVNULL
        environment = os.environ | ENVIRONMENT
        self._process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)
        wait_for(self.port)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@dataclass(frozen=True)
class Page:
    """A page that is served by a process of its own, from a folder of its own."""

    port: int
    home: Path
    folder: Path
    process: subprocess.Popen[bytes]

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, bytes]:
        """Status and text of an answer. Keywords are headers, with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): one for name, one in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def entitled(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, bytes]:
        """The same with the password."""
        return self.ask(path, method, body, Authorization=basic(password_in(self.home / PASSWORD)), **headers)


def basic(password: str, user: str = USER) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _printed_port(output: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that the command has chosen."""
    while not (port := re.search(rb"http://127\.0\.0\.1:(\d+)/", output.read_bytes())):
        assert process.poll() is None, output.read_text()
        time.sleep(0.2)
    return int(port[1])


def start_page_process(home: Path, folder: Path) -> Page:
    folder.mkdir()
    environment = os.environ | {"SUBGRAFT_HOME": str(home)}
    environment.pop("MLFLOW_TRACKING_URI", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "subgraft", "tracking", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=(folder.with_suffix(".out")).open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    port = _printed_port(folder.with_suffix(".out"), process)
    wait_for(port)
    return Page(port, home, folder, process)


def processes_of(page: Page) -> list[int]:
    """Those that live of the session that the page's command began, as /proc has them."""
    processes = []
    for state in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = state.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == page.process.pid and fields[0] != "Z":
            processes.append(int(state.parent.name))
    return processes
