"""A signal ends commands while a real model generates."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from finished import separate_bundle
from toys import english


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_generation_ends_on_a_signal(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """It is not said that the same command continues, because it starts again."""
    separate_bundle().save(tmp_path / "model")
    (tmp_path / "many.en").write_text("".join(f"{line}\n" for line in english(400) * 250), encoding="utf-8")
    command = [sys.executable, "-m", "subgraft", "generate", "--model", "model", "--input", "many.en"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible
    ) as process:
        assert process.stderr is not None
        while "100,000 sentences" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.splitlines()[-1:] == (["subgraft: stopped"] if sent == signal.SIGINT else [])


def _interruptible() -> None:
    """A shell that runs tests in the background ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
