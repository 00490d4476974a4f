"""The training loop of pretraining, generator training and finetuning. It knows only batches and named losses.

All randomness is a function of (seed, step) or (seed, epoch). So a checkpoint consists of parameters, optimizer state
and counters, and a resumed training equals an uninterrupted one, to the bit on the same machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchFiles, cut_by_size, share_of_worker
from subgraft.training.checkpoint import Checkpoint, Checkpoints
from subgraft.training.checkpoint_writer import CheckpointWriter
from subgraft.training.engine import Batch, Engine, add_up, read_values, sum_over_workers
from subgraft.training.memory_probe import most_demanding
from subgraft.training.optimizers import SCHEDULES, ScheduleLength, learning_rate
from subgraft.training.progress import BatchCallback, CurvePoint, Outcome, Selection, TrainingState
from subgraft.training.schedule import (
    Data,
    JointPlan,
    MixedPlan,
    StagedData,
    StagedPlan,
    data_plan,
    dropout_seed,
    is_evaluated,
    steps_of,
    upcoming_batches,
)
from subgraft.training.tensor_shards import GatheredTensors, PrefixedTensors, TensorSlice

# The number of batches that are built to find the largest one, because the lengths of examples only estimate its size.
CANDIDATES = 8
# The approximate maximum number of points in a curve, because tracking servers and their clients load all of them.
MAX_CURVE_POINTS = 10_000
# The unit of progress.
STEPS = "steps"
# Prefixes of tensors' names in a checkpoint.
_BEST, _CALLBACK = "best.", "preparation."


@dataclass(frozen=True)
class Hooks:
    """Optional callbacks of a training.

    Attributes:
        evaluate: returns named dev scores of the current module.
        select: the dev score that selects the best weights.
        before_update: called with the number of finished updates before each update.
        metrics: called with (step, values), for records.
        progress: called with (done, total, unit, current values), for display.
    """

    evaluate: Callable[[], dict[str, float]] | None = None
    select: Selection | None = None
    before_update: Callable[[int], None] = lambda step: None
    metrics: Callable[[int, Mapping[str, float]], None] = lambda step, values: None
    progress: Callable[[int, int, str, str], None] = lambda done, total, what, now: None


class Trainer:
    """Trains a module that maps a batch to named loss sums, weighted by `weights` and normalised by global counts."""

    def __init__(
        self,
        module: nn.Module,
        weights: Mapping[str, float],
        data: Data,
        settings: TrainingSettings,
        engine: Engine,
        checkpoints: Checkpoints,
        *,
        seed: int,
        checkpoint_seconds: float = 60.0,
        background: bool = False,
        hooks: Hooks | None = None,
        width: int = 0,
        callback: BatchCallback | None = None,
        batch_files: BatchFiles | None = None,
        schedule_by_source: bool = False,
    ) -> None:
        """Prepare a training; `run` starts or resumes it.

        Args:
            module: maps a batch to named sums of losses.
            weights: the weight of each loss; losses of weight zero are ignored.
            data: the examples and their lengths.
            settings: the training settings.
            engine: computes gradients and optimizer steps.
            checkpoints: the directory of the checkpoints.
            seed: the seed of batches and dropout.
            checkpoint_seconds: the interval between checkpoints.
            background: whether checkpoints are written in a thread while training continues.
            hooks: the callbacks.
            width: the width of the model's hidden states, if the schedule needs it.
            callback: rewrites batches before they are computed, for example to sample targets.
            batch_files: stores the batches of large data sets on disk, shared by the workers.
            schedule_by_source: whether the learning rate of a batch in a mixture depends on the number of updates on
                the batch's own source.
        """
        self._module = module
        self._weights = {name: weight for name, weight in weights.items() if weight}
        self._data = data
        self._begin_step: Callable[[int], None] = data.begin if isinstance(data, StagedData) else lambda step: None
        self._settings = settings
        self._engine = engine
        self._checkpoints = checkpoints
        self._seed = seed
        self._writer = CheckpointWriter(checkpoints, engine, checkpoint_seconds, background)
        self._hooks = hooks or Hooks()
        self._plan = data_plan(data, settings, seed, batch_files)
        self._width = width
        self._callback = callback
        self._schedule_by_source = schedule_by_source
        self._rate = 0.0
        self._next_built: list[tuple[Batch, bool]] | None = None
        self._best: dict[str, Tensor] = {}
        self._state = TrainingState()

    def largest_batch(self) -> Batch:
        """This worker's share of the micro-batch that needs most memory in the first epoch."""
        engine, lengths = self._engine, self._plan.lengths
        parts = (part for batch in self._plan.largest() for part in self._micro_batches(batch))
        candidates = most_demanding(parts, lengths, CANDIDATES)
        batches = [self._data.batch(candidate, 0) for candidate in candidates]
        largest = max(range(len(batches)), key=lambda i: math.prod(batches[i].shape))
        (share,) = share_of_worker([candidates[largest]], engine.rank, engine.world)
        return self._data.batch(share if len(share) else candidates[largest][:1], 0)

    def probe_memory(self, batch: Batch) -> None:
        """Run one batch without an update, to test the memory. Neither weights nor random state change."""
        device = self._engine.device
        self._module.train()
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            accumulates = self._settings.micro_batch_size is not None or isinstance(self._plan, JointPlan)
            self._engine.probe_memory(batch.to(device), list(self._weights), times=2 if accumulates else 1)
        state = self._engine.state()
        self._writer.reserve(state, self._parts(state))

    def run(self) -> Outcome:
        """Train to the end, from the last valid checkpoint if there is one; leaves the best weights in the module."""
        self._restore(self._checkpoints.latest())
        state = self._state
        if state.step == 0 and not state.curve:
            self._evaluate(0.0)
        if self._stops() and not state.finished:  # the checkpoint was written without this `stop_after`
            per_epoch = len(self._plan.epoch(state.epoch, state.step - state.position))
            if not state.curve or state.curve[-1].step < state.step:
                self._evaluate(state.epoch + state.position / per_epoch)
            state.finished = True
        with self._writer:
            while not state.finished:
                self._run_epoch(self._plan.epoch(state.epoch, state.step - state.position))
            self._use_best()
            self._writer.finish()
        return Outcome(tuple(state.curve), state.step, state.best_step, state.seconds)

    def _run_epoch(self, batches: Sequence[np.ndarray]) -> None:
        state, per_epoch = self._state, len(batches)
        while state.position < per_epoch and not state.finished:
            started = time.monotonic()
            means = self._update(batches, state.position, state.epoch)
            state.seconds += time.monotonic() - started
            state.position += 1
            state.step += 1
            self._report(means, per_epoch)
            settings, ends_epoch = self._settings, state.position == per_epoch
            by_steps = settings.max_steps is not None and state.step >= settings.max_steps
            by_epochs = settings.epochs is not None and ends_epoch and state.epoch + 1 == settings.epochs
            last = self._stops() or by_steps or by_epochs
            due = is_evaluated(settings, state.step, state.position, per_epoch)
            if due or last:
                self._evaluate(state.epoch + state.position / per_epoch)
            state.finished = state.finished or last
            self._save(force=state.finished or due)
        state.epoch, state.position = state.epoch + 1, 0

    def _update(self, epoch_batches: Sequence[np.ndarray], position: int, epoch: int) -> dict[str, float]:
        """One optimizer step on one global batch of an epoch; returns the mean of each loss over its items."""
        settings, engine, indices = self._settings, self._engine, epoch_batches[position]
        self._hooks.before_update(self._state.step)
        self._begin_step(self._state.step)
        self._look_ahead()
        torch.manual_seed(dropout_seed(self._seed, self._state.step, engine.rank))
        built, self._next_built = self._next_built or self._build(indices, epoch), None
        batches, has_share = [batch for batch, _ in built], [is_share for _, is_share in built]
        names = list(self._weights)
        local_counts = [batch.counts if is_share else {} for batch, is_share in built]
        counts = sum_over_workers(add_up(local_counts), names, engine)
        scale = {name: weight / max(counts.get(name, 0), 1) for name, weight in self._weights.items()}
        if self._callback is not None:
            batches = list(self._callback.prepare(batches, self._state.step, engine))
        local_sums = self._accumulate(batches, has_share, scale)
        self._rate = learning_rate(settings, self._schedule_step(indices), self._schedule_length)
        engine.step(self._rate)
        if self._builds_ahead and position + 1 < len(epoch_batches):
            self._next_built = self._build(epoch_batches[position + 1], epoch)
        # Only now, as this waits for a GPU: until here it computes while the processor prepares what comes next.
        sums = sum_over_workers(add_up(read_values(local_sums)), names, engine)
        # In a mixture, only the losses of the batch's objective have counts.
        return {name: sums.get(name, 0.0) / counts[name] for name in names if counts.get(name)}

    def _build(self, indices: np.ndarray, epoch: int) -> list[tuple[Batch, bool]]:
        """This worker's shares of the micro-batches of a global batch, and whether each is one.

        Passes are collective, so a worker without a share of a micro-batch computes one example with weight zero.
        """
        micro_batches = self._micro_batches(indices)
        shares = share_of_worker(micro_batches, self._engine.rank, self._engine.world)
        return [
            (self._data.batch(share if len(share) else micro_batch[:1], epoch), len(share) > 0)
            for share, micro_batch in zip(shares, micro_batches, strict=True)
        ]

    @cached_property
    def _builds_ahead(self) -> bool:
        """Whether the next batch is built while a GPU computes; examples that depend on the step are not."""
        return self._engine.device.type == "cuda" and not isinstance(self._data, StagedData)

    def _accumulate(
        self, batches: Sequence[Batch], has_share: Sequence[bool], scale: Mapping[str, float]
    ) -> list[Mapping[str, Tensor]]:
        """Accumulate the gradients of micro-batches; returns the sum of each loss for each of this worker's shares.

        Args:
            batches: the micro-batches.
            has_share: whether each micro-batch is a share of this worker; the others have weight zero.
            scale: the factor of each loss.
        """
        self._module.train()
        sums: list[Mapping[str, Tensor]] = []
        for number, (batch, is_counted) in enumerate(zip(batches, has_share, strict=True)):
            weights = scale if is_counted else dict.fromkeys(scale, 0.0)
            last = number == len(batches) - 1
            losses = self._engine.accumulate(batch.to(self._engine.device), weights, last=last)
            sums.append(losses if is_counted else {})
        return sums

    def _schedule_step(self, indices: np.ndarray) -> int:
        """The step, from 1, at which the schedule is evaluated: that of the training, or of the batch's source."""
        if not self._schedule_by_source or not isinstance(self._plan, MixedPlan | StagedPlan):
            return self._state.step + 1
        source, updates = str(self._plan.source_of(indices)), self._state.updates
        updates[source] = updates.get(source, 0) + 1
        return updates[source]

    def _look_ahead(self) -> None:
        """Show the upcoming batches to the callback, every `callback.every` steps."""
        callback, state = self._callback, self._state
        if callback is None or callback.every is None or state.step % callback.every:
            return
        position = (state.epoch, state.position)
        upcoming = upcoming_batches(self._plan, self._settings, position, state.step, callback.every)
        callback.look_ahead(self._local_batches(upcoming), self._engine)

    def _local_batches(self, batches: Iterator[tuple[np.ndarray, int]]) -> Iterator[Batch]:
        """This worker's shares of global batches, without empty ones."""
        for indices, epoch in batches:
            for share in share_of_worker(self._plan.parts(indices), self._engine.rank, self._engine.world):
                if len(share):
                    yield self._data.batch(share, epoch)

    @cached_property
    def _schedule_length(self) -> ScheduleLength:
        settings = self._settings
        bounded = SCHEDULES[settings.schedule].needs_total
        total = steps_of(self._plan, settings) if bounded else 0
        return ScheduleLength(settings.warmup_steps, total, self._width)

    def _micro_batches(self, indices: np.ndarray) -> list[np.ndarray]:
        size, parts = self._settings.micro_batch_size, self._plan.parts(indices)
        if size is None:
            return parts
        size *= self._engine.world
        return [piece for part in parts for piece in cut_by_size(part, self._plan.lengths, size)]

    def _stops(self) -> bool:
        """Whether the training has reached `stop_after`."""
        return self._settings.stop_after is not None and self._state.step >= self._settings.stop_after

    def _report(self, means: Mapping[str, float], per_epoch: int) -> None:
        if self._engine.rank:
            return
        step, settings = self._state.step, self._settings
        by_epochs = settings.epochs * per_epoch if settings.epochs else None
        total = min(each for each in (by_epochs, settings.max_steps, settings.stop_after) if each is not None)
        now = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        self._hooks.progress(step, total, STEPS, now)
        if step % -(-total // MAX_CURVE_POINTS) and step != total:
            return
        prepared = {} if self._callback is None else self._callback.measured()
        self._hooks.metrics(
            step, {**{f"train_{name}": v for name, v in means.items()}, "learning_rate": self._rate, **prepared}
        )

    def _evaluate(self, epoch: float) -> None:
        """Score the current module. Every worker does this, so that all workers make the same decision."""
        if self._hooks.evaluate is None:
            return
        state = self._state
        with self._engine.gathered_parameters():
            self._module.eval()
            values = self._hooks.evaluate()
        state.curve.append(CurvePoint(state.step, epoch, state.seconds, values))
        if self._engine.rank == 0:
            self._hooks.metrics(state.step, {f"dev_{name}": value for name, value in values.items()})
        if self._hooks.select is None:
            return
        score, patience = self._hooks.select.signed_score(values), self._settings.patience
        if state.best_score is None or score > state.best_score:
            state.best_score, state.best_step, state.stale = score, state.step, 0
            parameters = self._engine.state()
            self._best = {k: t.clone() for k, t in parameters.items() if k.startswith("parameter.")}
        else:
            state.stale += 1
            state.finished = patience is not None and state.stale >= patience

    def _save(self, force: bool) -> None:
        if not self._writer.due(force):
            return
        prepared = {} if self._callback is None else self._callback.state()
        tensors, best = self._engine.state(), _with_prefix(_BEST, self._best)
        parts = self._parts((*tensors, *best))
        tensors |= _with_prefix(_CALLBACK, prepared)
        self._writer.write(self._state.step, tensors, best, parts, asdict(self._state))

    def _use_best(self) -> None:
        if self._best:
            self._engine.load_state(GatheredTensors(self._best, self._engine), self._state.best_step)
        else:
            self._state.best_step = self._state.step

    def _parts(self, names: Iterable[str]) -> dict[str, TensorSlice]:
        """This worker's slices of the tensors that are divided among the workers."""
        parts = ((name, self._engine.part(name.removeprefix(_BEST))) for name in names)
        return {name: part for name, part in parts if part is not None}

    def _restore(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        tensors = checkpoint.tensors
        for name, whole in PrefixedTensors(tensors, _BEST).items():
            part = self._engine.part(name)
            self._best[name] = whole if part is None else part.of(whole).clone()
        if self._callback is not None:
            self._callback.load_state(dict(PrefixedTensors(tensors, _CALLBACK)))
        self._engine.load_state(tensors, checkpoint.step)
        self._state = TrainingState.from_state(checkpoint.state | {"step": checkpoint.step})


def _with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
