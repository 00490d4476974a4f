"""What tests of interrupted runs look at in a store: a training under way, its attempts, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path


def await_training(home: Path, alive: Callable[[], bool], seconds: float = 400) -> None:
    """Until a training has a checkpoint and is not over, which the run must live to see."""
    deadline = time.monotonic() + seconds
    while not any(home.glob("work/*/checkpoints/*/step-*")):
        assert alive(), "the run ended before a training had a checkpoint"
        assert time.monotonic() < deadline, "no training got going"
        time.sleep(0.02)


def attempts(home: Path, stage: str) -> list[list[int]]:
    """The training steps that each attempt at the only step of a stage reported, in order."""
    (record,) = _records(home, stage)
    results: list[list[int]] = []
    for line in (home / "work" / record["fingerprint"] / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "started":
            results.append([])
        elif "train_loss" in event.get("values", {}):
            results[-1].append(event["step"])
    return results


def weights(home: Path) -> dict[str, str]:
    """The digest of every file of weights in a store, by fingerprint and name."""
    return {
        f"{record['fingerprint']}/{entry['path']}": entry["sha256"]
        for stage in ("pretrain", "transfer", "finetune")
        for record in _records(home, stage)
        for entry in record["files"]
        if entry["path"].endswith(".safetensors")
    }


def _records(home: Path, stage: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(path.read_text()) for path in sorted(home.glob(f"store/{stage}/*/record.json"))]
