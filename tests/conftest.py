"""What every test may ask for: the real corpora, where they are at hand, and a tracking server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracking_servers import TrackingServer

REPOSITORY = Path(__file__).resolve().parent.parent


def _find_mirror() -> Path | None:
    named = os.environ.get("SUBGRAFT_DATA")
    candidates = [Path(named)] if named else [REPOSITORY.parent / "shared" / "data"]
    return next((path for path in candidates if (path / "MANIFEST.tsv").is_file()), None)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real corpora; the test is skipped, and says so, where there is none."""
    found = _find_mirror()
    if found is None:
        message = "needs the real corpora: set SUBGRAFT_DATA to their folder"
        if os.environ.get("SUBGRAFT_REQUIRE_DATA"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture
def tracking_server(tmp_path: Path) -> Iterator[TrackingServer]:
    """A real MLflow server on this machine, with a folder of its own."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = TrackingServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
