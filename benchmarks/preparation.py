"""How much of a generator training step is spent on preparing its data (re-segmentation, similar tokens, padding).

    python benchmarks/preparation.py [--sentences 40000] [--steps 12]

On English to French tatoeba from SUBGRAFT_DATA, with a model of the `small` preset and 8,000 subwords a side. Similar
sets are found and cached as in training; the first batches, with a cold cache, are printed apart.
"""

from __future__ import annotations

import statistics
import time

import torch

from measurements import measurements, options
from subgraft.config.experiment.presets import preset
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchPlan
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.seq2seq import Seq2SeqView
from tatoeba import small_model

QUICK = 5  # steps


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sentences", type=int, default=40000)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    simulator, loss, settings = _prepare(args.sentences)
    engine = PlainEngine(loss, settings, torch.device("cpu"))
    preparing: list[float] = []
    stepping: list[float] = []
    plan = BatchPlan(simulator.lengths, settings.batch_size, seed=1).epoch(0)
    for indices in plan[: min(QUICK, args.steps) if args.quick else args.steps]:
        started = time.perf_counter()
        batch = simulator.batch(indices, epoch=0)
        prepared = time.perf_counter()
        scale = {name: weight / batch.counts[name] for name, weight in loss.weights.items()}
        engine.accumulate(batch, scale, last=True)
        engine.step(1e-3)
        preparing.append(prepared - started)
        stepping.append(time.perf_counter() - started)
    shares = [part / whole for part, whole in zip(preparing, stepping, strict=True)]
    with measurements(__doc__, args) as table:
        table.add("first batch, cold cache", data_seconds=preparing[0], step_seconds=stepping[0], share=shares[0])
        later = (statistics.median(taken[1:]) for taken in (preparing, stepping, shares))
        table.add("later batches", **dict(zip(("data_seconds", "step_seconds", "share"), later, strict=True)))


def _prepare(sentences: int) -> tuple[Simulator, GeneratorLoss, TrainingSettings]:
    bundle, examples = small_model(sentences)
    settings = TrainingSettings(**preset("small")["generator_training"])
    view = Seq2SeqView(examples, "decoder", bundle.padding)
    simulator = Simulator(view, bundle.decoder, ResegmentationSettings(), 10, 1)
    generator = Generator("patt", int(bundle.model.config.d_model))
    return simulator, GeneratorLoss(bundle.model, generator, view, 0.5, 0.0, "input"), settings


if __name__ == "__main__":
    main()
