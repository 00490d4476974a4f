"""Small trainings on several workers, each a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

WORKER = Path(__file__).with_name("engine_worker.py")
STEPS = 6


def run_workers(
    kind: str, workers: int, out: Path, steps: int = STEPS, task: str = "pretraining", background: bool = False
) -> dict[int, float]:
    """Losses by step of `engine_worker.py`, which says what kind, task and background are."""
    out.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(WORKER), task, kind, str(out), str(steps), *(["background"] if background else [])]
    logs = [out / f"worker-{rank}.log" for rank in range(workers)]
    running = []
    for rank, log in enumerate(logs):
        own = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        with log.open("w") as said:
            running.append(subprocess.Popen(command, env=own, stdout=said, stderr=subprocess.STDOUT))
    _wait(running, logs)
    written = out / f"losses-{steps}.json"
    losses = json.loads(written.read_text()) if written.exists() else {}
    return {int(step): loss for step, loss in losses.items()}


def assert_weights_agree(
    final: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, rtol: float, atol: float
) -> None:
    """All but the biases of keys, whose gradient is rounding alone: softmax ignores what all keys have in common."""
    assert final.keys() == expected.keys()
    for name, tensor in expected.items():
        if not name.endswith(("key.bias", "k_proj.bias")):
            torch.testing.assert_close(final[name], tensor, rtol=rtol, atol=atol, msg=name)


def _wait(running: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path]) -> None:
    """Until all have ended well. Where one fails the others would wait for it in vain: they are ended too."""
    until = time.monotonic() + 600
    try:
        while True:
            codes = [process.poll() for process in running]
            failed = [log.read_text() for code, log in zip(codes, logs, strict=True) if code]
            assert not failed, failed[0]
            if None not in codes:
                return
            assert time.monotonic() < until, "the workers took more than ten minutes"
            time.sleep(0.1)
    finally:
        for process in running:
            process.kill()
