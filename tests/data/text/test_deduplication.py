"""What was seen before is known exactly, in memory and on disk, and nothing is left of the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from subgraft.data.text import deduplication
from subgraft.data.text.deduplication import SegmentDigests


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and blocks of few digests."""
    monkeypatch.setattr(deduplication, "AT_ONCE", 50)


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("on_disk", [False, True])
def test_the_same_as_a_set(on_disk: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    pool = rng.integers(0, 1 << 64, size=900, dtype=np.uint64)
    known, expected = SegmentDigests(tmp_path if on_disk else None), set[int]()
    for size in rng.integers(0, 80, size=60):
        some = rng.choice(pool, size=size)
        assert known.has(some).tolist() == [value in expected for value in some.tolist()]
        new = []
        for value in some.tolist():
            new.append(value not in expected)
            expected.add(value)
        assert known.new(some).tolist() == new
    assert len(known) == len(expected) > 500
    assert any(isinstance(run.base, np.memmap) for run in known._runs) == on_disk
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small_runs")
def test_there_are_few_runs() -> None:
    digests = np.random.default_rng(6).integers(0, 1 << 64, size=20_000, dtype=np.uint64)
    known = SegmentDigests.of(np.array_split(digests, 500))
    assert len(known) == 20_000
    assert len(known._runs) <= 10


def test_the_smallest_and_the_largest_digest_are_digests() -> None:
    ends = np.array([0, (1 << 64) - 1, 0], dtype=np.uint64)
    known = SegmentDigests()
    assert known.new(ends).tolist() == [True, True, False]
    assert known.has(ends).all()
