"""Peak memory of projection and loss over 250,027 subwords: all logits at once, or slices of them.

    python benchmarks/loss_memory.py [--tokens 512] [--width 512] [--precision fp32]

Forward and backward, with label smoothing, in a process of its own for each way; what the process holds before (inputs,
the projection, libraries) does not count. On a CPU; read the ratio.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch
from torch import Tensor
from torch.nn import functional

from subgraft.objectives.cross_entropy import linear_cross_entropy

VOCABULARY = 250_027
SMOOTHING = 0.1
GIBIBYTE = 2**30


def whole(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """What a plain training loop does."""
    logits = functional.linear(hidden, weight).float()
    return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=SMOOTHING)


def sliced(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return linear_cross_entropy(hidden, weight, None, labels, SMOOTHING)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"whole logits": whole, "slices (ours)": sliced}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--width", type=int, default=512)
    options.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    given = options.parse_args()
    found = {name: _measured(name, given.tokens, given.width, given.precision) for name in WAYS}
    most = max(found.values())[0]
    for name, (peak, seconds, loss) in found.items():
        print(f"{name:14s} {peak / GIBIBYTE:6.2f} GiB, 1/{most / peak:.1f}, {seconds:5.1f} s, loss {loss:.6g}")


def _measured(way: str, tokens: int, width: int, precision: str) -> tuple[int, float, float]:
    """Bytes at the peak, seconds and the loss, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(there, way, tokens, width, precision))
    process.start()
    measured: tuple[int, float, float] = here.recv()
    process.join()
    return measured


def _measure(told: Connection, way: str, tokens: int, width: int, precision: str) -> None:
    torch.manual_seed(1)
    hidden = torch.randn(tokens, width, requires_grad=True)
    weight = torch.randn(VOCABULARY, width).mul_(width**-0.5).requires_grad_()
    labels = torch.randint(0, VOCABULARY, (tokens,))
    before, started = _peak(), time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = WAYS[way](hidden, weight, labels)
    torch.autograd.backward(loss)
    told.send((_peak() - before, time.perf_counter() - started, float(loss.detach())))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
