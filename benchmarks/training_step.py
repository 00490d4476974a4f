"""Seconds of one training step on a CPU in bf16: fused or plain attention, whole logits or slices of them.

    python benchmarks/training_step.py [--sentences 40000] [--steps 10] [--threads 2]

On English to French tatoeba from SUBGRAFT_DATA, with a model of the `small` preset and 8,000 subwords a side. All
variants take the same batches in turn, in one process with the environment of a worker, so read the ratios.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from measurements import measurements, options
from subgraft.config.experiment.presets import preset
from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchPlan
from subgraft.modeling.sides import side
from subgraft.orchestration.execution.cluster import ENVIRONMENT
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss, top_states
from tatoeba import small_model

WARMUP, QUICK = 2, 3


class WholeLogitsLoss(Seq2SeqLoss):
    """What a plain training loop does: all logits of the batch at once, then `cross_entropy`."""

    def forward(self, batch: Seq2SeqBatch) -> dict[str, Tensor]:
        states = top_states(self.model, batch)
        decoder = side(self.model, "decoder")
        assert decoder.output is not None and decoder.bias is not None
        logits = functional.linear(states, decoder.output.weight) + decoder.bias.reshape(-1)
        loss = functional.cross_entropy(
            logits.flatten(0, 1).float(),
            batch.labels.flatten(),
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        return {"loss": loss}


@dataclass(frozen=True)
class Variant:
    name: str
    attention: str
    loss: type[Seq2SeqLoss]


VARIANTS = (
    Variant("plain attention, sliced loss (ours)", "eager", Seq2SeqLoss),
    Variant("fused attention, sliced loss", "sdpa", Seq2SeqLoss),
    Variant("plain attention, whole logits", "eager", WholeLogitsLoss),
    Variant("fused attention, whole logits", "sdpa", WholeLogitsLoss),
)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sentences", type=int, default=40000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if not ENVIRONMENT.keys() <= os.environ.keys():  # glibc reads its part of it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    torch.set_num_threads(args.threads)
    bundle, examples = small_model(args.sentences)
    data, settings = Seq2SeqData(examples, *bundle.padding), TrainingSettings(**preset("small")["pretrain"])
    batches = BatchPlan(data.lengths, settings.batch_size, seed=1).epoch(0)[
        : WARMUP + (QUICK if args.quick else args.steps)
    ]
    steps = {variant: _step(variant, bundle.model, data, settings) for variant in VARIANTS}
    seconds: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    for indices in batches:
        for variant, step in steps.items():
            started = time.perf_counter()
            step(indices)
            seconds[variant].append(time.perf_counter() - started)
    ours = statistics.median(seconds[VARIANTS[0]][WARMUP:])
    with measurements(__doc__, args) as table:
        for variant in VARIANTS:
            median = statistics.median(seconds[variant][WARMUP:])
            table.add(variant.name, step_seconds=median, times_ours=median / ours)


def _step(variant: Variant, model: nn.Module, data: Seq2SeqData, settings: TrainingSettings) -> Callable[..., None]:
    module = variant.loss(model, settings.label_smoothing)  # type: ignore[arg-type]
    engine = PlainEngine(module, settings, torch.device("cpu"))

    def step(indices: object) -> None:
        model.set_attn_implementation(variant.attention)  # type: ignore[operator]
        module.train()
        batch = data.batch(indices, epoch=0)  # type: ignore[arg-type]
        engine.accumulate(batch, {"loss": 1 / batch.counts["loss"]}, last=True)
        engine.step(1e-4)

    return step


if __name__ == "__main__":
    main()
