"""Executes a plan on Ray: every step whose inputs exist runs at once, as far as cores and GPUs allow."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from subgraft.base.errors import OperationalError, SubgraftError, UserError
from subgraft.config.runtime import MAX_CORES, Runtime
from subgraft.orchestration.execution import resources
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.heartbeat import Watch
from subgraft.orchestration.execution.plan import Plan, make_plan
from subgraft.orchestration.execution.worker import Job, perform
from subgraft.orchestration.store import events
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

POLL_SECONDS = 0.3
PATIENCE_SECONDS = 30.0
# For a step whose process hung and was killed.
_HANG_HINT = (
    "Run the same command again: it continues from the last checkpoint. runtime.max_failures is how often that "
    "happens automatically, runtime.heartbeat_timeout how long to wait."
)


def run(
    store: Store,
    targets: Sequence[Step],
    runtime: Runtime,
    observers: Sequence[events.Observer] = (),
    *,
    address: str | None = None,
    provenance: Provenance | None = None,
) -> dict[str, Record]:
    """Make the targets and their inputs.

    When everything is cached, Ray is not started. After a failure the running steps finish, nothing new starts, and
    the first failure is raised.

    Args:
        store: Where artifacts are found and published.
        targets: The steps to make.
        runtime: Workers, cores and GPUs.
        observers: Called as steps are cached, start, progress, finish or fail.
        address: Of a Ray cluster; None starts a local one unless RAY_ADDRESS is set.
        provenance: Of the process that asked for the run, if not this one.

    Returns:
        The records of all steps that exist now, by fingerprint.

    Raises:
        UserError: As a stage raised it, or for resources that are not available.
        OperationalError: For any other failure.
    """
    plan = _announce_cached(store, targets, observers)
    records = dict(plan.cached)
    if plan.to_run:
        store.sweep()
        require_devices(plan, store, runtime, address)
        with cluster(runtime, address, store.say):
            import ray

            local = is_local(address)  # a cluster elsewhere may grow
            if local:
                jobs = [job_for(step, store, runtime, Provenance()) for step in plan.to_run]
                resources.check_fits(jobs, ray.cluster_resources())  # type: ignore[no-untyped-call]
            records.update(_Execution(store, plan, runtime, observers, provenance or Provenance.here(), local).run())
    return records


def _announce_cached(store: Store, targets: Sequence[Step], observers: Sequence[events.Observer]) -> Plan:
    """Make a plan, and report its cached steps to the observers, so that no garbage collection removes them.

    A garbage collection that started earlier may remove an artifact before the report: then the plan is made again.
    """
    announced = set[str]()
    while True:
        plan = make_plan(store, targets)
        cached = [entry for entry in plan.entries if entry.record is not None]
        for entry in cached:
            if entry.step.fingerprint not in announced:
                announced.add(entry.step.fingerprint)
                for observer in observers:
                    observer.cached(entry.step, plan.cached[entry.step.fingerprint])
        if all(store.find(entry.step) is not None for entry in cached):
            return plan


def job_for(step: Step, store: Store, runtime: Runtime, provenance: Provenance) -> Job:
    """A step with its resources: cores, GPUs if the stage uses them, workers if it can be distributed."""
    cpus_by_stage = {"pretrain": runtime.pretrain_cpus, "evaluate": runtime.evaluate_cpus}
    cpus = min(cpus_by_stage.get(step.stage.stage_name) or runtime.cpus_per_step, runtime.cpus or MAX_CORES)
    distributed = step.stage.distributed and (runtime.workers > 1 or runtime.zero_stage is not None)
    gpus = runtime.gpus_per_worker if step.stage.accelerated or step.stage.distributed else 0
    return Job(step, store.home, runtime, cpus, gpus, distributed, provenance)


def is_local(address: str | None) -> bool:
    """Whether a run with this address starts its own Ray on this machine."""
    return address is None and "RAY_ADDRESS" not in os.environ


def require_devices(plan: Plan, store: Store, runtime: Runtime, address: str | None) -> None:
    """Raises UserError for missing GPUs before a local Ray is started; a running Ray reports its own resources."""
    ray = sys.modules.get("ray")
    if not is_local(address) or (ray is not None and ray.is_initialized()):
        return
    if any(job_for(step, store, runtime, Provenance()).gpus for step in plan.to_run):
        resources.require_gpus(runtime)


@dataclass
class _Running:
    """A step that was submitted to Ray.

    Attributes:
        reported: It has reported progress, or the user was warned that no machine fits it.
        killed: A message about its process that hung and was killed last.
    """

    job: Job
    tail: events.EventTail
    since: float
    started: bool = False
    reported: bool = False
    cancelled: bool = False
    killed: str = ""


@dataclass
class _Execution:
    """One run on a running cluster; `local` means this machine only."""

    store: Store
    plan: Plan
    runtime: Runtime
    observers: Sequence[events.Observer]
    provenance: Provenance
    local: bool
    running: dict[Any, _Running] = field(default_factory=dict)
    made: dict[str, Record] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = Watch(self.runtime.heartbeat_timeout)

    def run(self) -> Mapping[str, Record]:
        import ray

        waiting = list(self.plan.to_run)
        try:
            while self.running or (waiting and not self.failures):
                if not self.failures:
                    made = self.plan.cached.keys() | self.made.keys()
                    for step in [
                        step for step in waiting if {each.fingerprint for each in step.inputs.values()} <= made
                    ]:
                        job = job_for(step, self.store, self.runtime, self.provenance)
                        if self._has_room(job):
                            waiting.remove(step)
                            self._submit(job)
                finished, _ = ray.wait(list(self.running), num_returns=1, timeout=POLL_SECONDS)
                for running in self.running.values():
                    self._follow(running)
                    self._check_heartbeats(running)
                for reference in finished:
                    self._finish(reference)
        except BaseException as reason:
            self._stop(reason)
            raise
        if self.failures:
            raise self.failures[0]
        return self.made

    def _has_room(self, job: Job) -> bool:
        """Whether to submit a job now: on this machine a worker group waits until the running ones leave room.

        A cluster elsewhere is sent all jobs, because it may grow with the waiting ones.
        """
        import ray

        if not (self.local and job.distributed):
            return True
        started = sum(running.job.distributed for running in self.running.values())
        return started < resources.groups_at_once(job, ray.cluster_resources())  # type: ignore[no-untyped-call]

    def _submit(self, job: Job) -> None:
        import ray

        step = job.step
        tail = events.EventTail(self.store.work(step) / events.EVENTS)
        running = _Running(job, tail, time.monotonic())
        for event in tail.read():  # those of an earlier attempt, whose curve is part of this step's
            if isinstance(event, events.Metrics):
                self._report(step, event)
        # A distributed step's own task only waits for its workers, which have the resources.
        options = (
            {"num_cpus": 0, "num_gpus": 0} if job.distributed else resources.task_resources(job, resources.machines())
        )
        task = ray.remote(perform).options(
            name=step.name,
            max_retries=self.runtime.max_failures,
            retry_exceptions=False,
            scheduling_strategy="DEFAULT",  # not in the placement group of a trial that requests the step
            **options,
        )
        self.running[task.remote(job)] = running

    def _follow(self, running: _Running) -> None:
        for event in running.tail.read():
            running.started |= isinstance(event, events.Started)
            running.reported |= isinstance(event, events.Progress)
            self._report(running.job.step, event)
        if not running.reported and time.monotonic() - running.since > PATIENCE_SECONDS:
            if line := resources.machine_shortage(running.job, resources.machines()):
                self._report(running.job.step, events.Warned(line))
            running.reported = True

    def _report(self, step: Step, event: events.Event) -> None:
        for observer in self.observers:
            match event:
                case events.Started():
                    observer.started(step)
                case events.Progress():
                    observer.progress(step, event)
                case events.Metrics():
                    observer.metrics(step, event)
                case events.Warned():
                    observer.warned(step, event)
                case events.Noted():
                    observer.noted(step, event)

    def _check_heartbeats(self, running: _Running) -> None:
        for line in self.watch.end_hanging(self.store.work(running.job.step)):
            running.killed = line
            self._report(running.job.step, events.Warned(line))

    def _finish(self, reference: Any) -> None:
        import ray

        running = self.running.pop(reference)
        self._follow(running)
        try:
            ray.get(reference)
            record = self.store.find(running.job.step)
            if record is None:
                raise OperationalError("its artifact did not verify", where=running.job.step.name)
        except Exception as error:
            if not running.cancelled:
                failure = _unwrap(error, running.job.step)
                if running.killed and not isinstance(failure, UserError):
                    failure = OperationalError(running.killed, where=running.job.step.name, hint=_HANG_HINT)
                self.failures.append(failure)
                for observer in self.observers:
                    observer.failed(running.job.step, failure)
                self._cancel_queued()
        else:
            self.made[running.job.step.fingerprint] = record
            for observer in self.observers:
                observer.finished(running.job.step, record)

    def _cancel_queued(self) -> None:
        import ray

        for reference, running in self.running.items():
            self._follow(running)
            if not running.started:
                running.cancelled = True
                ray.cancel(reference)

    def _stop(self, reason: BaseException) -> None:
        import ray

        for reference, running in self.running.items():
            ray.cancel(reference, force=True)
            for observer in self.observers:
                observer.failed(running.job.step, reason)


def _unwrap(error: Exception, step: Step) -> SubgraftError:
    """The stage's own error without Ray's wrapper, or an OperationalError with the reason why the task died."""
    cause = getattr(error, "cause", None)
    for candidate in (cause, error):  # Ray's wrapper is an instance of the wrapped class, too
        if isinstance(candidate, SubgraftError):
            return candidate
    if isinstance(cause, Exception):  # outside the stage: in Ray, or in the code around the stage
        return OperationalError(f"{type(cause).__name__}: {cause}", where=step.name)
    from ray.exceptions import OutOfMemoryError

    if isinstance(error, OutOfMemoryError):
        return OperationalError(
            "Ray ended its process, because the machine was running out of memory",
            where=step.name,
            hint=(
                f"Free memory, or lower {resources.RESOURCE_SETTINGS}; the same command continues from the last "
                "checkpoint."
            ),
        )
    lines = str(error).strip().splitlines()
    return OperationalError(
        f"its process died: {lines[0] if lines else type(error).__name__}",
        where=step.name,
        hint="run the same command again: it continues from the last checkpoint",
    )
