"""The expected duration of a fit's trainings, from earlier similar trainings or from one timed update."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from subgraft.config.runtime import Runtime
from subgraft.config.training import Precision, TrainingSettings
from subgraft.evaluation.reporting.numbers import duration, fixed
from subgraft.experiments.fit.choices import QUICK_SEEDS, QUICK_STEPS, SEEDS
from subgraft.modeling.families import family_of, vocabulary_sizes
from subgraft.modeling.hub import read_config
from subgraft.orchestration.estimates.estimate import Estimate

# Tokens of one sentence of the update that is timed.
SENTENCE_TOKENS = 32
# A machine is busy if an update's wall time exceeds its thread's CPU time by this factor; on an idle machine it is 1.
BUSY = 1.5
# If the trainings take longer than this, the user is shown how to shorten them.
LONG_SECONDS = 3600.0
# Updates are repeated for at least this long while they are timed.
_MIN_TIMED_SECONDS = 1.0


class Duration(NamedTuple):
    """The expected duration.

    Attributes:
        seconds: The time of all trainings.
        slowdown: The factor by which other processes slow them; 1 if unknown.
    """

    seconds: float
    slowdown: float = 1.0

    def describe(self, trainings: int, cores: int, *, quick: bool, then: str = "translations") -> list[str]:
        """Lines on how long the trainings take; if that is long or the machine is busy, also on how to shorten it."""
        lines = [f"{trainings} trainings for about {duration(self.seconds)}, and then {then} of the test set"]
        if self.slowdown >= BUSY:
            load = fixed(os.getloadavg()[0], 1)
            lines.append(
                f"the machine is busy (load {load} on {cores} cores): the pace just measured is "
                f"{fixed(self.slowdown, 1)} times slower than without other processes, where the trainings would take "
                f"about {duration(self.seconds / self.slowdown)}"
            )
        if self.slowdown >= BUSY or self.seconds >= LONG_SECONDS:
            lines.append(self._smaller_budget(quick=quick))
        return lines

    def _smaller_budget(self, *, quick: bool) -> str:
        if quick:
            return "for less: copy fit.yaml, lower finetune.max_steps and evaluate_at, and give it to `subgraft run`"
        share = QUICK_STEPS * len(QUICK_SEEDS) / len(SEEDS)
        return f"for less: a quick fit (one seed, half the updates) takes about {duration(share * self.seconds)}"


class TimedUpdate(NamedTuple):
    """Seconds of an update, and their ratio to its computing time."""

    seconds: float
    slowdown: float


class Stopwatch:
    """Starts when it is created. On a busy machine more time passes than this thread computes."""

    def __init__(self) -> None:
        self._started, self._computed = time.perf_counter(), time.thread_time()

    def read(self) -> TimedUpdate:
        seconds = time.perf_counter() - self._started
        return TimedUpdate(seconds, max(1.0, seconds / max(1e-6, time.thread_time() - self._computed)))


def training_time(
    trainings: Sequence[Estimate], runtime: Runtime, cores: int, model: Path, tokens_per_character: float
) -> Duration | None:
    """The time of all trainings, as many at once as cores and GPUs allow; None if it is not known.

    model: its update is timed if there was no similar training.  tokens_per_character: of the target text.
    """
    if not trainings:
        return Duration(0.0)
    paces = [estimate.pace.seconds if estimate.pace else None for estimate in trainings]
    sizes = [_tokens_per_update(estimate.step.stage.training, tokens_per_character) for estimate in trainings]
    timed, timed_tokens = None, 1.0
    if None in paces:
        timed_tokens = min(size for size, pace in zip(sizes, paces, strict=True) if pace is None)
        timed = _time_update(model, trainings[0].step.stage.training.precision, runtime, timed_tokens)
    total = 0.0
    for estimate, tokens, pace in zip(trainings, sizes, paces, strict=True):
        if pace is None and timed is not None:
            pace = timed.seconds * tokens / timed_tokens
        if estimate.workload.updates is None or pace is None:
            return None
        total += estimate.workload.updates * pace
    at_once = 1 if runtime.gpus_per_worker else max(1, cores // runtime.cpus_per_step)
    return Duration(total / min(at_once, len(trainings)), timed.slowdown if timed else 1.0)


def _tokens_per_update(settings: TrainingSettings, tokens_per_character: float) -> float:
    """Target tokens of an update."""
    return settings.batch_size * (tokens_per_character if settings.batch_unit == "characters" else 1.0)


def _mean_time(update: Callable[[], None]) -> TimedUpdate:
    """The mean time of an update, over enough updates that other processes have also run in between."""
    watch, count = Stopwatch(), 0
    while not count or watch.read().seconds < _MIN_TIMED_SECONDS:
        update()
        count += 1
    total = watch.read()
    return TimedUpdate(total.seconds / count, total.slowdown)


def _time_update(model: Path, precision: Precision, runtime: Runtime, tokens: float) -> TimedUpdate | None:
    """Seconds of the second of two updates on random tokens; None for a model that must be assembled first."""
    if not family_of(read_config(model)).generates:
        return None
    import torch

    from subgraft.modeling.bundle import Bundle
    from subgraft.modeling.precision import LayerShape, autocast, faster_precision, faster_products, fuses_attention

    device = torch.device("cuda" if runtime.gpus_per_worker else "cpu")
    network = Bundle.load_to_train(model).model.to(device).train()  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0)
    sentences = max(1, round(tokens / SENTENCE_TOKENS))
    generator = torch.Generator().manual_seed(1)
    vocabulary_size = min(vocabulary_sizes(read_config(model)).values())
    ids = torch.randint(vocabulary_size, (sentences, SENTENCE_TOKENS), generator=generator).to(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(runtime.cpus_per_step)
    try:
        if precision == "auto":
            precision = faster_precision(LayerShape.of(network), device).precision
        if not fuses_attention(device, precision):
            network.set_attn_implementation("eager")

        def update() -> None:
            with faster_products(device, precision, SENTENCE_TOKENS):
                with autocast(device, precision):
                    loss = network(input_ids=ids, labels=ids).loss
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            float(loss.detach())  # waits for a GPU

        update()
        timed = _mean_time(update)
        return timed if device.type == "cpu" else TimedUpdate(timed.seconds, 1.0)  # a thread waits for a GPU
    finally:
        torch.set_num_threads(threads)
