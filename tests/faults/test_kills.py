"""A run killed with SIGKILL in each kind of training carries on and ends with an uninterrupted run's weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STAGES = ("pretrain", "generator", "finetune")
SETTINGS = (
    "corpora.everyday.limit={train: 1500, dev: 30, test: 30}",
    "corpora.law.limit={train: 400, dev: 30, test: 30}",
    "seeds=[1]",
    "upstream.vocabulary.size=600",
    "downstream.vocabulary.size=500",
    "model={d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 64, dropout: 0.1}",
    "pretrain.epochs=2",
    "pretrain.batch_size=400",
    "generator_training.max_steps=30",
    "generator_training.batch_size=400",
    "finetune.epochs=2",
    "finetune.batch_size=1500",
    "rows=[{name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    "evaluation={beam: 1, speed_sentences: 8, speed_repeats: 1}",
    "runtime={checkpoint_seconds: 0.000001}",
)


def _start(repository: Path, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "subgraft", "run", str(repository / "configs" / "quickstart.yaml"), *SETTINGS]
    return subprocess.Popen(
        command,
        cwd=repository,
        env=os.environ | {"SUBGRAFT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _finish(repository: Path, home: Path) -> None:
    process = _start(repository, home)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said


def _records(home: Path, stage: str) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(home.glob(f"store/{stage}/*/record.json"))]


def _steps_of_running(home: Path, stage: str) -> int:
    """Training steps that the running stage of this kind has reported: 0 before it starts."""
    done = {str(record["fingerprint"]) for record in _records(home, stage)}
    most = 0
    for log in home.glob("work/*/events.jsonl"):
        if log.parent.name in done or not (log.parent / "checkpoints").is_dir():
            continue
        for line in log.read_text().splitlines():
            if '"kind": "progress"' in line and line.endswith("}"):
                most = max(most, int(json.loads(line)["done"]))
    return most


def _kill_in(repository: Path, home: Path, stage: str) -> None:
    """Start the run, wait until the stage is some steps in, and kill the driver; its Ray goes with it."""
    process = _start(repository, home)
    earlier = STAGES[: STAGES.index(stage)]
    deadline = time.monotonic() + 400
    while not (all(_records(home, each) for each in earlier) and _steps_of_running(home, stage) >= 4):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{stage} never got going"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not _records(home, stage), f"{stage} was over before the kill"


@pytest.mark.timeout(1500)
def test_killed_in_every_training_the_same_command_carries_on_to_the_same_weights(
    repository: Path, tmp_path: Path
) -> None:
    _finish(repository, tmp_path / "straight")
    for stage in STAGES:
        _kill_in(repository, tmp_path / "killed", stage)
    _finish(repository, tmp_path / "killed")
    for stage in STAGES:
        straight, killed = (_records(tmp_path / home, stage) for home in ("straight", "killed"))
        assert [record["fingerprint"] for record in straight] == [record["fingerprint"] for record in killed]
        for one, other in zip(straight, killed, strict=True):
            weights = [
                {entry["path"]: entry["sha256"] for entry in record["files"] if entry["path"].endswith(".safetensors")}  # type: ignore[attr-defined]
                for record in (one, other)
            ]
            assert weights[0] == weights[1], stage
            assert weights[0]
