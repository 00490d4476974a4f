"""Nothing is compiled for a training under DeepSpeed, so a killed compiler does not block later trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_runs import run_workers

# PyTorch's way to build one at a time: it waits until this file is removed, regardless of its owner and age.
LOCK = "deepspeed_shm_comm/lock"


@pytest.mark.timeout(120)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero0", "zero2", "zero3", "zero3-parameters"])
def test_what_a_killed_compiler_left_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    (tmp_path / "extensions" / LOCK).parent.mkdir(parents=True)
    (tmp_path / "extensions" / LOCK).touch()
    assert len(run_workers(kind, 1, tmp_path / "out", steps=2)) == 2
    left = [path for path in (tmp_path / "extensions").rglob("*") if path.is_file()]
    assert left == [tmp_path / "extensions" / LOCK], "something was compiled"
