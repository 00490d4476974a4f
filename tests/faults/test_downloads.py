"""A tracking server that names files outside the folder that a model is fetched to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError
from subgraft.orchestration.tracking.server import Server


class HostileServer(ThreadingHTTPServer):
    """Lists `names` as the files of every artifact, and serves a body for each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        self.names: list[str] = []
        self.served: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: HostileServer

    def do_GET(self) -> None:
        if "?path=" in self.path:
            listed = [{"path": name, "is_dir": False, "file_size": 4} for name in self.server.names]
            body = json.dumps({"files": listed}).encode()
        else:
            self.server.served.append(self.path)
            body = b"evil"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    with HostileServer() as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield running
        running.shutdown()


def fetch(hostile: HostileServer, home: Path) -> Path:
    server = Server(home, hostile.uri)
    with server.answering():
        return server.fetch("mlflow-artifacts:/1/run/artifacts/model", home / "registry" / "model")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_an_honest_listing_is_fetched(hostile: HostileServer, tmp_path: Path) -> None:
    hostile.names = ["model.safetensors"]
    assert files(fetch(hostile, tmp_path / "home")) == ["model.safetensors"]
    assert hostile.served


@pytest.mark.parametrize("name", ["../../../up", "/tmp/absolute", "a/../../../up", "%2e%2e/up", "%252e%252e/up"])
def test_nothing_is_written_outside(hostile: HostileServer, tmp_path: Path, name: str) -> None:
    hostile.names = ["model.safetensors", name]
    with pytest.raises(OperationalError, match="the tracking server does not answer"):
        fetch(hostile, tmp_path / "home")
    assert files(tmp_path) == []
    assert not Path("/tmp/absolute").exists()
