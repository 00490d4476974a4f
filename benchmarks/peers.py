"""The same rows by other packages: FOCUS (deepfocus), WECHSEL (wechsel) and OMP (mergekit's tokensurgeon), and by ours.

    make peers                           puts them into .peers, apart from this project's environment
    python benchmarks/peers.py [--quick]

All are given the same static vectors and upstream rows, so what is measured is the step from those to new rows: no
fastText, no reading of files. `largest difference` is between their rows and ours. What is not installed is left out.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from measurements import cannot, measurements, options
from subgraft.embeddings.initialisers.static_mixtures import (
    ATOMS,
    NEIGHBOURS,
    TEMPERATURE,
    matching_pursuit,
    nearest_weights,
    sparsemax,
)

WIDTH, STATIC, BLOCK = 1024, 100, 1024
SEEN, NEW = 20_000, 8_000
Rows = Callable[[], Tensor]


class Inputs:
    """Static vectors of seen and new tokens, [n, STATIC], and the upstream rows of the seen ones, [n, WIDTH]."""

    def __init__(self, seen: int, new: int) -> None:
        torch.manual_seed(1)
        # Some directions in common, as real vectors have: else nothing is near to anything.
        topics = torch.randn(200, STATIC)
        self.seen = topics[torch.randint(200, (seen,))] + 0.7 * torch.randn(seen, STATIC)
        self.new = topics[torch.randint(200, (new,))] + 0.7 * torch.randn(new, STATIC)
        self.rows = torch.randn(seen, WIDTH)


def by_focus(module: Any, inputs: Inputs) -> tuple[Rows, Rows]:
    def theirs() -> Tensor:
        seen = {
            str(i): module.OverlappingToken(source=[], target=None, source_embedding=row, auxiliary_embedding=vector)
            for i, (row, vector) in enumerate(zip(inputs.rows, inputs.seen, strict=True))
        }
        new = {
            str(i): module.NewToken(target=SimpleNamespace(id=i), auxiliary_embedding=vector)
            for i, vector in enumerate(inputs.new)
        }
        made: Tensor = module.focus_additional_token_initialization(seen, new, torch.zeros(len(new), WIDTH), "cpu")
        return made

    def ours() -> Tensor:
        unit = torch.nn.functional.normalize(inputs.seen, dim=1)
        blocks = torch.split(torch.nn.functional.normalize(inputs.new, dim=1), BLOCK)
        return torch.cat([sparsemax(block @ unit.T).to_sparse() @ inputs.rows for block in blocks])

    return theirs, ours


def by_wechsel(module: Any, inputs: Inputs) -> tuple[Rows, Rows]:
    def theirs() -> Tensor:
        source, target = _Names(len(inputs.seen)), _Names(len(inputs.new))
        vectors = (inputs.seen.numpy(), inputs.new.numpy())
        made, *_ = module.create_target_embeddings(
            *vectors, source, target, inputs.rows.numpy(), NEIGHBOURS, TEMPERATURE, verbose=False
        )
        return torch.from_numpy(np.asarray(made))

    def ours() -> Tensor:
        nearest, weights = nearest_weights(inputs.new, inputs.seen, NEIGHBOURS, TEMPERATURE)
        return _mixed(inputs.rows, nearest, weights)

    return theirs, ours


def by_omp(module: Any, inputs: Inputs) -> tuple[Rows, Rows]:
    def theirs() -> Tensor:
        solutions = [module.batch_omp(block, inputs.seen, ATOMS) for block in torch.split(inputs.new, BLOCK)]
        return torch.cat([_mixed(inputs.rows, chosen, weights) for chosen, weights in solutions])

    def ours() -> Tensor:
        solutions = [matching_pursuit(block, inputs.seen, ATOMS) for block in torch.split(inputs.new, BLOCK)]
        return torch.cat([_mixed(inputs.rows, chosen, weights.float()) for chosen, weights in solutions])

    return theirs, ours


PEERS = {
    "FOCUS, deepfocus": ("deepfocus.focus", by_focus),
    "WECHSEL, wechsel": ("wechsel", by_wechsel),
    "OMP, mergekit": ("mergekit.tokensurgeon.omp", by_omp),
}


class _Names:
    """As much of a tokenizer as wechsel asks for: ids as tokens, none of them special."""

    def __init__(self, size: int) -> None:
        self.vocab = {str(i): i for i in range(size)}
        self.special_tokens_map: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.vocab)

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        return str(ids) if np.ndim(ids) == 0 else [str(i) for i in ids]


def main() -> None:
    asked = options(__doc__).parse_args()
    torch.set_num_threads(1)
    peers = {name: (_imported(module), way) for name, (module, way) in PEERS.items()}
    if not any(module for module, _ in peers.values()):
        cannot("no other package is installed: `make peers` does it")
    part = 4 if asked.quick else 1
    inputs = Inputs(SEEN // part, NEW // part)
    with measurements(__doc__, asked) as table:
        for name, (module, way) in peers.items():
            if module is None:
                continue
            theirs, ours = way(module, inputs)
            (by_them, their_seconds), (by_us, our_seconds) = _timed(theirs), _timed(ours)
            table.add(
                f"{name}, {len(inputs.new):,} of {len(inputs.seen):,}",
                their_CPU_seconds=their_seconds,
                our_CPU_seconds=our_seconds,
                theirs_to_ours=their_seconds / our_seconds,
                largest_difference=float((by_them.float() - by_us).abs().max()),
            )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"left out: {name.partition('.')[0]} ({error})", flush=True)
        return None


def _mixed(rows: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Rows [n, d] of weighted sums of k others each, by index [n, k]."""
    return torch.nn.functional.embedding_bag(chosen, rows, per_sample_weights=weights, mode="sum")


def _timed(work: Rows) -> tuple[Tensor, float]:
    began = time.process_time()
    made = work()
    return made, time.process_time() - began


if __name__ == "__main__":
    main()
