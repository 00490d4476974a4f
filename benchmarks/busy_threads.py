"""Threads of one process on a busy machine, spinning or asleep while they wait: seconds of an update, as ratios.

    python benchmarks/busy_threads.py [--busy 4] [--threads 2] [--seconds 10]

--busy: processes computing meanwhile. Every setting is measured in a process of its own, one after the other, and
all of them again, as no load stays the same; ratios are to one thread of the same round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from multiprocessing import get_context

ROUNDS = 2
WIDTH, LAYERS, TOKENS = 256, 8, 512


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--busy", type=int, default=4)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.alone:
        print(_update(args.seconds))
        return
    busy = [get_context("spawn").Process(target=_compute, daemon=True) for _ in range(args.busy)]
    for process in busy:
        process.start()
    for number in range(1, ROUNDS + 1):
        one = _measured(1, None, args.seconds)
        for policy in ("ACTIVE", None, "PASSIVE"):
            ratio = _measured(args.threads, policy, args.seconds) / one
            shown = policy or "not set"
            print(f"round {number}: {args.threads} threads, OMP_WAIT_POLICY {shown}: {ratio:.2f}", flush=True)
    for process in busy:
        process.kill()


def _compute() -> None:
    while True:
        sum(range(100_000))


def _measured(threads: int, policy: str | None, seconds: float) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment.pop("OMP_WAIT_POLICY", None)
    command = [sys.executable, __file__, "--alone", "--seconds", str(seconds)]
    environment |= {"OMP_WAIT_POLICY": policy} if policy else {}
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _update(seconds: float) -> float:
    """Seconds of an update of a few layers."""
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    tokens = torch.randn(TOKENS, WIDTH)
    for _ in range(3):
        model(tokens).square().mean().backward()
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        model(tokens).square().mean().backward()
        count += 1
    return (time.monotonic() - began) / count


if __name__ == "__main__":
    main()
