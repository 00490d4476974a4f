"""Memory of a worker that trains in bf16 on a CPU, with and without the bounds that runs set for their workers.

    python benchmarks/worker_memory.py [--batches 100]

Each batch has another shape, as batches of sentences do. Every setting is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

import torch

from subgraft.config.presets import preset
from subgraft.config.training import TrainingSettings
from subgraft.execution.cluster import ENVIRONMENT
from subgraft.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.text.batches import BatchPlan
from subgraft.training.engine import PlainEngine
from tatoeba import small_model

CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
UNBOUNDED = {name: value for name, value in ENVIRONMENT.items() if name not in CACHES}
SETTINGS = {"as runs set them": ENVIRONMENT, "primitive caches unbounded": UNBOUNDED}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--batches", type=int, default=100)
    options.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.alone:
        _train(given.batches)
        return
    for name, environment in SETTINGS.items():
        print(f"{name}:", flush=True)
        command = [sys.executable, str(Path(__file__)), "--alone", "--batches", str(given.batches)]
        inherited = {key: value for key, value in os.environ.items() if key not in CACHES}
        subprocess.run(command, env=inherited | environment, check=True)


def _train(batches: int) -> None:
    bundle, examples = small_model(40000)
    settings = TrainingSettings(**preset("small")["pretrain"])
    data, module = Seq2SeqData(examples, *bundle.padding), Seq2SeqLoss(bundle.model, 0.1)
    engine = PlainEngine(module, settings, torch.device("cpu"))
    module.train()
    for number, indices in enumerate(BatchPlan(data.lengths, settings.batch_size, seed=1).epoch(0)[:batches], 1):
        batch = data.batch(indices, epoch=0)
        engine.accumulate(batch, {"loss": 1 / batch.counts["loss"]}, last=True)
        engine.step(1e-4)
        if number in (10, batches):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(f"  after {number} batches: {peak:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
