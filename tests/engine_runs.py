"""Small trainings on several workers, each a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parent / "training" / "engine_worker.py"
STEPS = 6


def run_workers(kind: str, workers: int, out: Path, steps: int = STEPS, task: str = "pretraining") -> dict[int, float]:
    """Losses by step of `training/engine_worker.py`, which says what kind and task are."""
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
        "PYTHONPATH": os.pathsep.join([str(WORKER.parent.parent), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, str(WORKER), task, kind, str(out), str(steps)]
    running = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(workers)
    ]
    for process in running:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
    written = out / f"losses-{steps}.json"
    losses = json.loads(written.read_text()) if written.exists() else {}
    return {int(step): loss for step, loss in losses.items()}
