"""A run killed with SIGKILL in each kind of training carries on and ends with an uninterrupted run's weights.

Each kill is followed by damage to the newest checkpoint, so that the one before it is what the next run goes on from.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from subgraft.training.checkpoint import STATE, TENSORS
from whole_runs import BUSY, again_if_busy

pytestmark = pytest.mark.ray

STAGES = ("pretrain", "generator", "finetune")
# What happens to a file of a stage's newest checkpoint after the kill.
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "pretrain": (TENSORS, lambda path: os.truncate(path, path.stat().st_size // 2)),
    "generator": (STATE, lambda path: os.truncate(path, 0)),
    "finetune": (TENSORS, Path.unlink),
}
SETTINGS = (
    "corpora.everyday.limit={train: 1500, dev: 30, test: 30}",
    "corpora.law.limit={train: 400, dev: 30, test: 30}",
    "seeds=[1]",
    "upstream.vocabulary.size=600",
    "upstream.vocabulary.byte_fallback=false",
    "downstream.vocabulary.size=500",
    "downstream.vocabulary.byte_fallback=false",
    "model={d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 64, dropout: 0.1}",
    "pretrain.epochs=2",
    "pretrain.batch_size=400",
    "generator_training.max_steps=30",
    "generator_training.batch_size=400",
    "finetune.epochs=2",
    "finetune.batch_size=1500",
    "systems=[{name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
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


def _finish(repository: Path, home: Path) -> str:
    """Run it to the end; what it said."""
    said = BUSY
    while BUSY in said:
        process = _start(repository, home)
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def _records(home: Path, stage: str) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(home.glob(f"store/{stage}/*/record.json"))]


def _checkpoints(home: Path) -> list[Path]:
    """Those of the training that runs, or was killed, oldest first; one that has just ended may still have its own."""
    finished = {record.parent.name for record in home.glob("store/*/*/record.json")}
    result = sorted(home.glob("work/*/checkpoints/*/step-*"))
    return [path for path in result if path.relative_to(home / "work").parts[0] not in finished]


def _kill_in(repository: Path, home: Path, stage: str) -> str:
    """Start the run, wait until the stage has two checkpoints, and kill it. What it said."""
    process = _start(repository, home)
    earlier = STAGES[: STAGES.index(stage)]
    deadline = time.monotonic() + 400
    while not (all(_records(home, each) for each in earlier) and len(_checkpoints(home)) >= 2):
        if process.poll() is not None:
            process = again_if_busy(process, lambda: _start(repository, home))
        assert time.monotonic() < deadline, f"{stage} never got going"
        time.sleep(0.02)
    _kill(process)
    said, _ = process.communicate()
    assert not _records(home, stage), f"{stage} was over before the kill"
    return said


def _kill(driver: subprocess.Popen[str]) -> None:
    """Kill the driver and the workers of its Ray, as a power cut does: what a worker does alone is tested elsewhere."""
    below = psutil.Process(driver.pid).children(recursive=True)
    os.kill(driver.pid, signal.SIGKILL)
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::"):
                process.kill()
    psutil.wait_procs(below, timeout=60)


def _damage(home: Path, stage: str) -> str:
    """Damage a file of the newest checkpoint of the training that was killed; the checkpoint's name."""
    newest = _checkpoints(home)[-1]
    name, damage = DAMAGE[stage]
    damage(newest / name)
    return newest.name


def _went_on(home: Path) -> float:
    """When the finetuning was begun for the last time."""
    (record,) = _records(home, "finetune")
    lines = (home / "work" / str(record["fingerprint"]) / "events.jsonl").read_text().splitlines()
    return max(float(json.loads(line)["time"]) for line in lines if '"kind": "started"' in line)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_in_every_training_the_same_command_carries_on_to_the_same_weights(
    repository: Path, tmp_path: Path, recovered: Callable[[str, float], None]
) -> None:
    _finish(repository, tmp_path / "straight")
    said, damaged = [], []
    for stage in STAGES:
        said.append(_kill_in(repository, tmp_path / "killed", stage))
        damaged.append(_damage(tmp_path / "killed", stage))
    again = time.time()
    said.append(_finish(repository, tmp_path / "killed"))
    recovered("a run killed, and started again: until the training goes on", _went_on(tmp_path / "killed") - again)
    messages = [line for output in said for line in output.splitlines() if "does not verify" in line]
    assert len(messages) == len(damaged)
    assert all(line.startswith("[warning]") and name in line for line, name in zip(messages, damaged, strict=True))
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
