"""Projection and loss over 250,027 subwords: whole logits, slices, and PyTorch's own fused operation.

    python benchmarks/large_softmax.py [--quick] [--tokens 512] [--width 256] [--precision fp32]

Forward and backward with label smoothing, in a process of its own for each way: CPU seconds of the second of two
passes, and the memory that both took at their peak, without what the process held before them (inputs, projection,
libraries). `slices, a quarter of the width` are those of vocabularies below 100,000.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import LinearCrossEntropyOptions, functional

from measurements import measurements, options
from subgraft.config.training import NamedPrecision
from subgraft.modeling.precision import autocast, faster_products
from subgraft.training.objectives.compute import cross_entropy
from subgraft.training.objectives.compute.logit_slices import loss_slice_rows, slice_rows

VOCABULARY, QUICK = 250_027, 100_000
SMOOTHING = 0.1
Way = Callable[[Tensor, Tensor, Tensor], Tensor]


def whole(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """What a plain training loop does."""
    logits = functional.linear(hidden, weight).float()
    return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=SMOOTHING)


def sliced(hidden: Tensor, weight: Tensor, labels: Tensor, rows: Callable[[int, int], int]) -> Tensor:
    with patch.object(cross_entropy, "loss_slice_rows", rows):
        return cross_entropy.linear_cross_entropy(hidden, weight, None, labels, SMOOTHING)


def fused(hidden: Tensor, weight: Tensor, labels: Tensor, options: LinearCrossEntropyOptions | None) -> Tensor:
    """PyTorch's, in chunks as it chooses them; autocast does not know it, so what it is given is cast."""
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype
    loss: Tensor = functional.linear_cross_entropy(
        hidden.to(dtype), weight.to(dtype), labels, reduction="sum", label_smoothing=SMOOTHING, options=options
    )
    return loss


WAYS: dict[str, Way] = {
    "whole logits": whole,
    "slices, a quarter of the width": partial(sliced, rows=slice_rows),
    "slices (ours)": partial(sliced, rows=loss_slice_rows),
    "PyTorch's, in chunks": partial(fused, options=LinearCrossEntropyOptions()),
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    args = parser.parse_args()
    vocabulary = QUICK if args.quick else VOCABULARY
    with measurements(__doc__, args) as table:
        first: float | None = None
        for name in WAYS:
            peak, seconds, loss = _measured(name, (vocabulary, args.tokens, args.width), args.precision)
            first = first or seconds
            table.add(name, GiB=peak / 2**30, CPU_seconds=seconds, beside_whole=seconds / first, loss=f"{loss:.7g}")


def _measured(way: str, shape: tuple[int, int, int], precision: NamedPrecision) -> tuple[int, float, float]:
    """Bytes at the peak, seconds and the loss, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(there, way, shape, precision))
    process.start()
    there.close()
    measured: tuple[int, float, float] = here.recv()
    process.join()
    return measured


def _measure(results: Connection, way: str, shape: tuple[int, int, int], precision: NamedPrecision) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    vocabulary, tokens, width = shape
    hidden = torch.randn(tokens, width, requires_grad=True)
    weight = torch.randn(vocabulary, width).mul_(width**-0.5).requires_grad_()
    labels = torch.randint(0, vocabulary, (tokens,))
    before, loss, seconds = _peak(), torch.zeros(()), 0.0
    for _ in range(2):
        hidden.grad = weight.grad = None
        started = time.process_time()
        with faster_products(torch.device("cpu"), precision, tokens):
            with autocast(torch.device("cpu"), precision):
                loss = WAYS[way](hidden, weight, labels)
            torch.autograd.backward(loss)
        seconds = time.process_time() - started
    results.send((_peak() - before, seconds, float(loss.detach())))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
