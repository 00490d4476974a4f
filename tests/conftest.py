"""What every test may ask for: the real corpora, where they are at hand, and a tracking server; and where it runs.

Tests that start Ray have the marker `ray`: they want the machine to themselves. All others may run side by side, a
module in one process, each process with one thread.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tracking_servers import TrackingServer

if TYPE_CHECKING:
    from subgraft.evaluation.reporting.records import ReportData

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when torch is imported
    os.environ.setdefault(threads, "1")
os.environ.pop("COLUMNS", None)  # the terminal of the user who runs the tests must not change tables
REPOSITORY = Path(__file__).resolve().parent.parent


def _find_mirror() -> Path | None:
    named = os.environ.get("SUBGRAFT_DATA")
    candidates = [Path(named)] if named else [REPOSITORY.parent / "shared" / "data"]
    return next((path for path in candidates if (path / "MANIFEST.tsv").is_file()), None)


@pytest.fixture(autouse=True)
def ray_only_where_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that starts Ray without the mark: it would run in parallel with others."""
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized() and request.node.get_closest_marker("ray") is None:
        pytest.fail("this test starts Ray: it needs `pytestmark = pytest.mark.ray`")


@pytest.fixture(autouse=True, scope="module")
def heap_without_imports() -> None:
    """Exclude what is alive before a module's tests from garbage collections.

    Every step ends with a collection. With all test modules and transformers imported, each took 0.3 s and more.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real corpora; the test is skipped, and says so, where there is none."""
    result = _find_mirror()
    if result is None:
        message = "needs the real corpora: set SUBGRAFT_DATA to their folder"
        if os.environ.get("SUBGRAFT_REQUIRE_DATA"):
            pytest.fail(message)
        pytest.skip(message)
    return result


@pytest.fixture(scope="session")
def mirror_if_any() -> Path | None:
    """The same folder, for tests that make do with text invented here."""
    return _find_mirror()


@pytest.fixture(scope="session")
def report_data() -> ReportData:
    """A comparison of five systems and two seeds, as an experiment would report it."""
    from comparison_data import make_report_data

    return make_report_data()


@pytest.fixture(scope="session")
def wide_data() -> ReportData:
    """A comparison of 22 systems and three seeds, with everything measured that can be."""
    from comparison_data import make_wide_data

    return make_wide_data()


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
