"""`subgraft serve` in a process of its own, asked through a socket as a program asks it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ServedModel:
    """token_file: which the command has written."""

    port: int
    token_file: Path

    def ask(self, *texts: str) -> tuple[int, Any]:
        """The status, and what was answered."""
        return self.post("/translate", {"texts": texts})

    def post(self, route: str, body: Any) -> tuple[int, Any]:
        """The same of another route."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        token = self.token_file.read_text(encoding="utf-8").strip()
        connection.request("POST", route, json.dumps(body), {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@contextmanager
def served(model: Path, place: Path, *arguments: str, until: signal.Signals = signal.SIGTERM) -> Iterator[ServedModel]:
    """A served model that `until` ends, with status 0."""
    token_file = place / "token"
    command = [sys.executable, "-m", "subgraft", "serve", str(model), "--port", "0", "--token-file", str(token_file)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(place)}
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            result = re.search(r"http://[\d.]+:(\d+)/", process.stdout.readline())
            assert result is not None
            yield ServedModel(int(result[1]), token_file)
        finally:
            process.send_signal(until)
        assert process.wait(30) == 0
