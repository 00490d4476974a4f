"""A pretraining of which it is written down what every worker draws at every step; else the stage as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from small_experiments import tiny, written
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.compute import pretrain
from subgraft.pipeline.stages.training import PretrainStage
from subgraft.training.context import Context, Json
from subgraft.training.loop import Trainer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData
from subgraft.training.schedule import dropout_seed

# The folder of traces: a file per process, a line per batch.
TRACES = "TRACES"
EXAMPLES = 120
SEED, STEPS = 1, 1000
CONFIG = tiny(
    name="traced",
    upstream="{corpus: upstream, vocabulary: {size: 90, byte_fallback: false}}",
    downstream="{corpus: downstream, vocabulary: {size: 90, byte_fallback: false}}",
    model="{d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, dropout: 0.1}",
    pretrain="{epochs: 2, batch_size: 60, precision: fp32, dev_sentences: 2}",
    finetune="{max_steps: 1}",
    systems="[{name: old, vocabulary: upstream}]",
)


@dataclass(frozen=True)
class Drawn:
    """The training examples that a worker drew: a batch, or its share of one."""

    process: int
    seed: int
    epoch: int
    examples: tuple[int, ...]


class TracedPretrainStage(PretrainStage):
    """A pretraining that writes down what it draws."""

    stage_name: ClassVar[str] = "traced"

    def run(self, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
        with _tracing(Path(os.environ[TRACES]) / str(os.getpid())):
            return pretrain.run(self, inputs, out, context)


def traced_pretraining(place: Path) -> Step:
    """The step, in a new folder, and whatever it needs."""
    place.mkdir()
    config = written(place, CONFIG)
    step = Pipeline(load(config, Experiment, []), place).models.pretrained
    return replace(step, stage=TracedPretrainStage.model_validate(dict(step.stage)))


@contextmanager
def _tracing(trace: Path) -> Iterator[None]:
    plain, plain_largest = Seq2SeqData.batch, Trainer.largest_batch

    def largest_batch(trainer: Trainer) -> Any:  # which is drawn to be tried, and not to be learnt from
        with patched(Seq2SeqData, "batch", plain):
            return plain_largest(trainer)

    def batch(data: Seq2SeqData, indices: np.ndarray, epoch: int) -> Seq2SeqBatch:
        if len(data.lengths) == EXAMPLES:  # and no dev set
            with trace.open("a") as stream:
                stream.write(f"{torch.initial_seed()} {epoch} {' '.join(map(str, indices))}\n")
        return plain(data, indices, epoch)

    with patched(Trainer, "largest_batch", largest_batch), patched(Seq2SeqData, "batch", batch):
        yield


@contextmanager
def patched(owner: type, name: str, function: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, before)


def drawn(folder: Path) -> list[Drawn]:
    """What was drawn so far, process by process; a line torn by a kill is left out."""
    results = []
    for path in folder.iterdir():
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                seed, epoch, *examples = map(int, line.split())
                results.append(Drawn(int(path.name), seed, epoch, tuple(examples)))
    return results


def by_step(result: list[Drawn], workers: int) -> dict[tuple[int, int], set[tuple[int, tuple[int, ...]]]]:
    """All different (epoch, examples) that were drawn at each (step, rank); a step is known by its dropout's seed."""
    place = {dropout_seed(SEED, step, rank): (step, rank) for step in range(STEPS) for rank in range(workers)}
    steps: dict[tuple[int, int], set[tuple[int, tuple[int, ...]]]] = {}
    for one in result:
        steps.setdefault(place[one.seed], set()).add((one.epoch, one.examples))
    return steps
