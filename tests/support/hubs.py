"""A hub of models on this machine: as much of Hugging Face's protocol as its client needs to fetch a repository."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_INFO = re.compile(r"/api/models/(?P<id>[\w.-]+/[\w.-]+)(/(?P<what>revision|tree)/(?P<revision>[^/]+))?")
_FILE = re.compile(r"/(?P<id>[\w.-]+/[\w.-]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
_REVISIONS = (None, "main", COMMIT, "v1")


class Hub(ThreadingHTTPServer):
    """Serves folder/OWNER/NAME as repositories of one commit.  fetched: names of files, in the order asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.fetched: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        if found := _INFO.fullmatch(path):
            self._repository(self.server.folder / found["id"], found["what"], found["revision"], body)
        elif found := _FILE.fullmatch(path):
            self._file(self.server.folder / found["id"], found["name"], body)
        else:
            self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})

    def _repository(self, folder: Path, what: str | None, revision: str | None, body: bool) -> None:
        if not folder.is_dir():
            self._send(404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
            return
        if revision not in _REVISIONS:
            self._send(404, b"{}", body, {"X-Error-Code": "RevisionNotFound"})
            return
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        told: Any = {"id": folder.name, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
        if what == "tree":
            told = [
                {"type": "file", "path": name, "size": path.stat().st_size, "oid": _digest(path.read_bytes())}
                for name, path in files.items()
            ]
        self._send(200, json.dumps(told).encode(), body, {"Content-Type": "application/json"})

    def _file(self, folder: Path, name: str, body: bool) -> None:
        if not (folder / name).is_file():
            self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})
            return
        content = (folder / name).read_bytes()
        if body:
            self.server.fetched.append(name)
        self._send(200, content, body, {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """A hub that ends with the block."""
    with Hub(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
