"""A vocabulary that is larger than its text supports is reported by the plan, and no other one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_experiments import tiny, written
from subgraft.interfaces.cli import main


@pytest.mark.parametrize(("size", "message"), [(75, False), (20_000, True)])
def test_a_plan_warns_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: int, message: bool
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    config = written(tmp_path, tiny(downstream=f"{{corpus: downstream, vocabulary: {{size: {size}}}}}"))
    assert main(["plan", str(config)]) == 0
    out = capsys.readouterr().out
    assert (f"{size:,} pieces are asked for, and its text supports no more than" in " ".join(out.split())) == message
    assert not (tmp_path / "home").exists()
