"""The expected duration of a fit: its first steps run on little text, and its plan is scheduled with their times.

Every part counts: updates, dev scores, the evaluation of the test set, the start of processes, and what comes before
and after the steps. `benchmarks/fit_times.py` compares what is expected with what a fit takes.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from subgraft.base.errors import SubgraftError
from subgraft.base.memory import return_freed_memory
from subgraft.base.unfinished import PREFIX
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.runtime import Runtime
from subgraft.evaluation.metrics.speed import load_average
from subgraft.evaluation.reporting.numbers import duration, fixed
from subgraft.experiments.fit.choices import QUICK_SEEDS, QUICK_STEPS, SEEDS
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.execution.plan import Plan
from subgraft.orchestration.execution.runner import job_for
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step, made_by
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.corpora import CorpusStage
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.models import CheckpointStage, TransferStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.stage import Stage, TrainedStage

# A machine is busy if other processes slow a fit by this factor.
BUSY = 1.5
# If a fit takes longer than this, the user is shown how to shorten it.
LONG_SECONDS = 3600.0
# Of an idle core: Ray's and MLflow's start and end; the start of a process with a model; a step that needs no model.
RUN_SECONDS, START_SECONDS, STEP_SECONDS = 10.0, 5.0, 2.0
# Training segments that the measurement reads; dev and test segments that it scores, and its updates: fewer for models
# above LARGE parameters, which take seconds for each.
_SEGMENTS, LARGE = 2000, 50_000_000
_SCORED, _SCORED_LARGE, _UPDATES, _UPDATES_LARGE = 16, 4, 12, 3


class ExpectedTime(NamedTuple):
    """The time that a fit is expected to take.

    Attributes:
        seconds: From the plan to the result.
        slowdown: The factor by which other processes slow them; 1 if unknown.
    """

    seconds: float
    slowdown: float = 1.0

    def describe(self, trainings: int, cores: int, *, quick: bool, then: str = "translations") -> list[str]:
        """Lines on how long the fit takes; if that is long or the machine is busy, also on how to shorten it."""
        lines = [
            f"{trainings} trainings with dev scores, and then {then} of the test set: about {duration(self.seconds)}"
        ]
        if self.slowdown >= BUSY:
            load = fixed(load_average() or 0.0, 1)
            lines.append(
                f"the machine is busy (load {load} on {cores} cores): the pace just measured is "
                f"{fixed(self.slowdown, 1)} times slower than without other processes, where it would take "
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


class Costs(NamedTuple):
    """Seconds on this machine while no other process slows it, of the model with the old vocabulary.

    Attributes:
        checkpoint: To import the model.
        preparation: Of a training, besides updates and dev scores.
        update: An update.
        dev: The scores of one dev segment, of which there are `dev_segments`.
        test: The outputs for one of `test_segments`, and their scores.
        contention: The factor by which other processes will slow a fit that uses all cores.
    """

    checkpoint: float
    preparation: float
    update: float
    dev: float
    test: float
    dev_segments: int
    test_segments: int
    contention: float = 1.0

    def of(self, stage: Stage, updates: float) -> float:
        """Seconds of a step, in a process that runs already. updates: of a training."""
        if isinstance(stage, CheckpointStage):
            return self.checkpoint
        if isinstance(stage, TrainedStage):
            scores = self._dev_scores(stage) if isinstance(stage, FinetuneStage) else 0.0
            return self.preparation + self.update * updates + scores
        return self._evaluation(stage) if isinstance(stage, EvaluateStage) else STEP_SECONDS

    def _dev_scores(self, stage: FinetuneStage) -> float:
        segments = min(stage.training.dev_sentences, self.dev_segments) * len(stage.parts)
        return self.dev * segments * (1 + len(stage.training.evaluate_at))

    def _evaluation(self, stage: EvaluateStage) -> float:
        settings: MeasurementSettings = stage.evaluation
        segments = min(settings.test_sentences or self.test_segments, self.test_segments)
        timed = min(settings.speed_sentences, segments) * (1 + settings.speed_repeats) if stage.speed else 0
        if stage.objective.continues_text:  # all lines are scored, the timed ones are continued
            return self.dev * segments + self.test * (timed + min(settings.speed_sentences, segments))
        return self.test * (segments + timed)


def expected(
    plan: Plan, costs: Costs, store: Store, runtime: Runtime, cores: int, *, finetuned: float = 1.0
) -> ExpectedTime:
    """The duration of a plan, scheduled as a run does it: each step as soon as its inputs and cores are there.

    finetuned: The share of the updates of its finetunings.
    """
    waiting = list(plan.to_run)
    updates = {
        step.fingerprint: (workload(store, step).updates or 0)
        * (finetuned if isinstance(step.stage, FinetuneStage) else 1.0)
        for step in made_by(TrainedStage, waiting)
    }
    done = {entry.step.fingerprint for entry in plan.entries} - {step.fingerprint for step in waiting}
    free, idle, now = cores, 0, 0.0
    running: list[tuple[float, int, int, Step]] = []
    while waiting or running:
        for step in [step for step in waiting if all(each.fingerprint in done for each in step.inputs.values())]:
            job = job_for(step, store, runtime, Provenance())
            needed = cores if job.gpus else min(job.cpus, cores)
            if needed > free:
                continue
            seconds = costs.of(step.stage, updates.get(step.fingerprint, 0))
            if _loads_model(step.stage):  # in a process that is free, or a new one
                seconds, idle = (seconds, idle - 1) if idle else (seconds + START_SECONDS, idle)
            waiting.remove(step)
            free -= needed
            heapq.heappush(running, (now + seconds, len(waiting), needed, step))
        now, _, released, finished = heapq.heappop(running)
        free, done = free + released, done | {finished.fingerprint}
        idle += _loads_model(finished.stage)
    factor = costs.contention
    return ExpectedTime((RUN_SECONDS + now) * factor, factor) if plan.to_run else ExpectedTime(0.0)


def _loads_model(stage: Stage) -> bool:
    return stage.accelerated or isinstance(stage, CheckpointStage | TransferStage)


def measure_costs(
    plan: Plan, store: Store, runtime: Runtime, cores: int, parameters: int, folder: Path
) -> Costs | None:
    """Import the model, finetune it for a few updates and evaluate it on little of the text, as the plan's steps do.

    Args:
        parameters: Of the model.
        folder: Gets a temporary folder for models and checkpoints.

    Returns:
        None if the plan trains no imported model, or if little of its text is not enough to train on.
    """
    steps = made_by(FinetuneStage, [entry.step for entry in plan.entries])
    training = next((step for step in steps if isinstance(step.inputs["model"].stage, CheckpointStage)), None)
    if training is None:
        return None
    import torch

    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(runtime.cpus_per_step)
    try:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as place:
            return _Measurement(training, plan, store, runtime, Path(place)).run(cores, large=parameters > LARGE)
    except SubgraftError:
        return None  # the steps themselves report what is wrong
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random_state)
        return_freed_memory()


class _Spent(NamedTuple):
    """Seconds that went by, and those that this thread computed: fewer on a busy machine."""

    seconds: float
    computed: float

    @classmethod
    def now(cls) -> _Spent:
        return cls(time.perf_counter(), time.thread_time())

    def since(self, start: _Spent) -> _Spent:
        return _Spent(self.seconds - start.seconds, self.computed - start.computed)


@dataclass
class _Watch:
    """The context of a stage that is timed: notes when each update and each dev score was done."""

    work: Path
    runtime: Runtime
    cache: Path | None = None
    measured: Path | None = None
    command: str = ""
    updates: list[_Spent] = field(default_factory=list)
    scores: list[_Spent] = field(default_factory=list)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        is_update = any(name.startswith("train_") for name in values)
        (self.updates if is_update else self.scores).append(_Spent.now())

    def progress(self, done: int, total: int, what: str, now: str = "") -> None: ...

    def warn(self, line: str) -> None: ...

    def note(self, line: str) -> None: ...


@dataclass
class _Measurement:
    """The steps before and after a finetuning, which run in this process."""

    training: Step[FinetuneStage]
    plan: Plan
    store: Store
    runtime: Runtime
    place: Path
    _importing: float = 0.0

    def run(self, cores: int, *, large: bool) -> Costs:
        from subgraft.data.text.corpus import Corpus

        scored, updates = (_SCORED_LARGE, _UPDATES_LARGE) if large else (_SCORED, _UPDATES)
        begun, others = _Spent.now(), _others()
        inputs = {role: self._made(step) for role, step in self.training.inputs.items()}
        stage = self.training.stage
        few = {"max_steps": updates, "epochs": None, "evaluate_at": (updates,), "dev_sentences": scored}
        few_updates = stage.model_copy(update={"training": stage.training.model_copy(update=few)})
        watch = self._context("finetune")
        started = _Spent.now()
        model = self._run(few_updates, inputs, "finetuned", watch)
        whole = self._cost(started)
        evaluation = next(
            step.stage
            for step in made_by(EvaluateStage, [entry.step for entry in self.plan.entries])
            if step.inputs["model"].fingerprint == self.training.fingerprint
        )
        settings = evaluation.evaluation.model_copy(update={"test_sentences": scored, "speed_sentences": scored})
        few_outputs = evaluation.model_copy(update={"evaluation": settings, "speed": False})
        started = _Spent.now()
        self._run(few_outputs, {**inputs, "model": model}, "evaluated", self._context("evaluate"))
        evaluating = self._cost(started)

        corpus = Corpus.open(inputs["corpus"])
        dev, test = corpus.size("dev"), corpus.size("test")
        first, *_, last = watch.updates
        update = self._cost(first, last) / (len(watch.updates) - 1)
        scoring = self._cost(last, watch.scores[-1])
        per_dev, per_test = scoring / min(scored, dev), evaluating / min(scored, test)
        if stage.objective.continues_text:  # an evaluation scores each line, too
            per_test = max(0.0, per_test - per_dev)
        return Costs(
            checkpoint=self._importing,
            preparation=max(0.0, whole - 2 * scoring - update * len(watch.updates)),
            update=update,
            dev=per_dev / len(stage.parts),
            test=per_test,
            dev_segments=dev,
            test_segments=test,
            contention=1.0 if self._on_gpu else _contention(_Spent.now().since(begun), others, cores),
        )

    @property
    def _on_gpu(self) -> bool:
        return bool(self.runtime.gpus_per_worker)

    def _cost(self, start: _Spent, end: _Spent | None = None) -> float:
        """The seconds without those in which other processes had the core; a thread also waits for a GPU."""
        spent = (end or _Spent.now()).since(start)
        return spent.seconds if self._on_gpu else spent.computed

    def _made(self, step: Step) -> Path:
        """An input of the training, from little of the text."""
        stage, started = step.stage, _Spent.now()
        if isinstance(stage, CheckpointStage) and self.store.find(step) is not None:
            return self.store.path(step)
        if isinstance(stage, CorpusStage):
            limit = {**stage.source.limit, "train": _SEGMENTS}
            stage = stage.model_copy(update={"source": stage.source.model_copy(update={"limit": limit})})
        made = self._run(stage, {}, step.fingerprint, self._context(step.fingerprint))
        if isinstance(stage, CheckpointStage):
            self._importing = self._cost(started)
        return made

    def _run(self, stage: Stage, inputs: Mapping[str, Path], name: str, context: _Watch) -> Path:
        out = self.place / name
        out.mkdir()
        stage.run(inputs, out, context)
        return out

    def _context(self, name: str) -> _Watch:
        work = self.place / f"{name}.work"
        work.mkdir()
        return _Watch(work, self.runtime)


def _others() -> float:
    """How many other processes have computed on average over the last minute."""
    own = min(1.0, time.process_time() / 60)
    return max(0.0, (load_average() or 0.0) - own)


def _contention(spent: _Spent, others: float, cores: int) -> float:
    """The factor by which other processes slow a fit that uses all cores.

    Of the two signs of them, the last minute and their effect on one thread just now, the weaker one counts: some of
    them will end.
    """
    slowdown = spent.seconds / max(1e-6, spent.computed)
    return 1.0 + min(others, max(0.0, slowdown * cores - 1)) / cores
