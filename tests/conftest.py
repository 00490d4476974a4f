"""What every test may ask for: the real corpora, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY
