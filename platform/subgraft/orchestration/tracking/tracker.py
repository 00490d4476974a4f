"""Runs on the tracking server: one for the invocation, and below it one for each system and seed.

A step outside the systems' runs, such as a pretraining that all share, gets its own run when it is made; cached steps
get none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError
from subgraft.orchestration.store.events import Metrics, Observer, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step, flatten
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.delivery import Delivery
from subgraft.orchestration.tracking.outbox import (
    EndRun,
    LogArtifacts,
    LogMetrics,
    Need,
    Operation,
    Outbox,
    RegisterModel,
    SetTags,
    StartRun,
)
from subgraft.orchestration.tracking.payloads import (
    FINGERPRINT,
    StepPayload,
    cached_tags,
    milliseconds_now,
    source_tags,
)
from subgraft.orchestration.tracking.server import tracking_uri
from subgraft.orchestration.tracking.system_runs import SystemRun, SystemRuns

PARENT = "invocation"
# Tags that identify the step of a run.
IDENTITY = ("stage", FINGERPRINT, "git_commit")


class Tracker(Observer):
    """An observer that writes everything to an outbox, which a thread delivers; no call here waits for the server.

    A step's own run has its flattened recipe as params, its labels and identity as tags, and the stage's metrics and
    the numbers of its summary as metrics; texts of the summary become tags, and its list `artifacts` names small files
    to upload.

    Args:
        store: Where the steps' artifacts are.
        experiment: The experiment's name in MLflow.
        say: Receives lines for the user.
        name: Of the invocation's run.
        uri: Of the tracking server.
        params, tags: Of the invocation's run.
        systems: The runs of systems (`system_runs`).
        report: The step whose files the invocation's run gets.
    """

    def __init__(
        self,
        store: Store,
        experiment: str,
        say: Callable[[str], None],
        *,
        name: str | None = None,
        uri: str | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        systems: Iterable[SystemRun] = (),
        report: Step | None = None,
    ) -> None:
        self.uri = tracking_uri(store.home, uri)
        self.name = name or time.strftime(f"{experiment}-%Y%m%d-%H%M%S")
        self._store = store
        self._say = say
        self._experiment = experiment
        self._report = report.fingerprint if report else None
        self._outbox = _new_outbox(store.home / "tracking")
        self._lost = False
        self._last_start = 0
        self._begun: set[str] = set()
        self._cached: dict[str, None] = {}  # in order
        self._made: set[str] = set()
        self._above: dict[str, str] = {}
        self._last_points: dict[tuple[str, str], int] = {}
        provenance = Provenance.here()
        self._source = source_tags(provenance)
        self._start(PARENT, None, self.name, params or {}, {"argv": " ".join(provenance.argv), **(tags or {})})
        self._systems = SystemRuns(systems, store, self._begin_system, self._note)
        self._delivery = Delivery(self._outbox, store.home, uri, say)

    def cached(self, step: Step, record: Record) -> None:
        self._note(Need(step.fingerprint))
        self._cached[step.fingerprint] = None
        if self._systems.show(step):
            self._systems.cached(step, record)
        elif step.fingerprint == self._report:
            self._summarise(PARENT, step, record)

    def started(self, step: Step) -> None:
        if step.fingerprint not in self._made:
            self._made.add(step.fingerprint)
            self._note(Need(step.fingerprint))
        if self._systems.show(step):
            self._systems.started(step)
        elif step.fingerprint != self._report:
            self._begin(step)

    def metrics(self, step: Step, event: Metrics) -> None:
        self.started(step)
        # A resumed training repeats the steps after its checkpoint.
        curves = {name: (step.fingerprint, name) for name in event.values}
        fresh = [name for name, curve in curves.items() if event.step > self._last_points.get(curve, -1)]
        self._last_points.update((curves[name], event.step) for name in fresh)
        if not fresh:
            return
        points = [(name, event.values[name], int(event.time * 1000), event.step) for name in fresh]
        if self._systems.show(step):
            self._systems.metrics(step, points)
        else:
            self._note(LogMetrics(self._run_of(step), points))

    def warned(self, step: Step, event: Warned) -> None:
        self.started(step)
        if self._systems.show(step):
            self._systems.warned(step, event.line)
        else:
            self._note(SetTags(self._run_of(step), {"warning": event.line}))

    def finished(self, step: Step, record: Record) -> None:
        self.started(step)
        if self._systems.show(step):
            self._systems.finished(step, record)
        else:
            self._summarise(self._run_of(step), step, record)

    def failed(self, step: Step, error: BaseException) -> None:
        self.started(step)
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        said = str(error) or type(error).__name__
        if self._systems.show(step):
            self._systems.failed(step, status, said)
            return
        run = self._run_of(step)
        self._note(SetTags(run, {"error": said}))
        if run != PARENT:
            self._note(EndRun(run, status, milliseconds_now()))

    def begin(self, run: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Start a child run that is not a stage; use `measure` and `end` on it."""
        self._start(run, PARENT, run, params, tags)

    def measure(self, run: str, values: Mapping[str, float], step: int = 0) -> None:
        """Log points of its curves."""
        self._note(LogMetrics(run, [(name, float(value), milliseconds_now(), step) for name, value in values.items()]))

    def end(self, run: str, status: str, tags: Mapping[str, str]) -> None:
        """status: FINISHED, FAILED or KILLED."""
        self._note(SetTags(run, tags))
        self._note(EndRun(run, status, milliseconds_now()))

    def nest(self, step: Step, run: str) -> None:
        """Put a stage's run below a child run, unless it has a parent already."""
        self._above.setdefault(step.fingerprint, run)

    def register(
        self,
        step: Step,
        model: str,
        aliases: Sequence[str],
        tags: Mapping[str, str] | None = None,
        *,
        card: str = "",
        evaluation: Step | None = None,
    ) -> None:
        """Register a step's artifact as a version of a model (the same content only once), and set aliases.

        The step must have been observed in this run. The model is a plain directory; nothing in it is executed. Card
        and the evaluation's texts are copied with it, if any.
        """
        record = self._store.find(step)
        if record is None:
            raise ValueError(f"{step.name} has no artifact")
        described = {"fingerprint": step.fingerprint, **step.labels, **(tags or {})}
        directory = str(self._store.path(step))
        texts = str(self._store.path(evaluation)) if evaluation else ""
        run = self._systems.run_of(step)
        if run is None:
            self._begin(step)
            run = step.fingerprint
        self._note(RegisterModel(run, model, directory, record.digest, list(aliases), described, card, texts))

    def close(self, status: str = "FINISHED") -> bool:
        """End the parent run (FINISHED, FAILED, KILLED) and deliver; False, with one line, if some remains."""
        self._systems.close()
        self._systems.summarise_in(PARENT)
        if self._cached or self._made:
            counts = {
                "steps/found": float(len(self._cached)),
                "steps/made": float(len(self._made - self._cached.keys())),
            }
            self.measure(PARENT, counts)
            self._note(SetTags(PARENT, cached_tags(list(self._cached))))
        self._note(EndRun(PARENT, status, milliseconds_now()))
        if self._delivery.finish():
            return True
        self._say(f"not all of this run is recorded yet: {self._outbox.path} is sent with the next run")
        return False

    def _note(self, operation: Operation) -> None:
        try:
            self._outbox.append(operation)
        except OSError as error:  # a failure to record must not end the training
            if not self._lost:
                self._lost = True
                self._say(f"tracking: part of the record is lost ({self._outbox.path}: {error.strerror})")

    def _run_of(self, step: Step) -> str:
        """The run of a step outside the systems' runs."""
        return PARENT if step.fingerprint == self._report else step.fingerprint

    def _begin(self, step: Step) -> None:
        if step.fingerprint in self._begun:
            return
        self._begun.add(step.fingerprint)
        identity = {"stage": step.stage.name, FINGERPRINT: step.fingerprint, "cached": "false"}
        parent = self._above.get(step.fingerprint, PARENT)
        recipe = step.recipe.model_dump(mode="json")
        self._start(step.fingerprint, parent, step.name, recipe, {**identity, **step.labels})

    def _begin_system(self, run: str, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self._start(run, PARENT, name, params, tags)

    def _start(
        self, run: str, parent: str | None, name: str, params: Mapping[str, Any], tags: Mapping[str, str]
    ) -> None:
        flat = {key: str(value) for key, value in flatten(params).items()}
        self._last_start = max(milliseconds_now(), self._last_start + 1)  # runs are listed by their start
        self._note(StartRun(run, parent, self._experiment, name, {**self._source, **tags}, flat, self._last_start))

    def _summarise(self, run: str, step: Step, record: Record) -> None:
        payload, now, directory = StepPayload.of(record), milliseconds_now(), str(self._store.path(step))
        if run == PARENT:
            self._note(SetTags(run, {f"{FINGERPRINT}.{step.stage.name}": step.fingerprint}))
            self._note(LogArtifacts(run, directory, payload.files, step.stage.name))
            return
        self._note(LogMetrics(run, [(name, value, now, 0) for name, value in payload.numbers.items()]))
        # A vocabulary's summary has a fingerprint of its own, which must not take the place of the step's.
        texts = {f"summary.{name}" if name in IDENTITY else name: text for name, text in payload.texts.items()}
        self._note(SetTags(run, texts))
        self._note(LogArtifacts(run, directory, payload.files))
        self._note(EndRun(run, "FINISHED", now))


def _new_outbox(folder: Path) -> Outbox:
    try:
        return Outbox.create(folder)
    except OSError as error:
        raise OperationalError(
            f"cannot write there: {error.strerror}",
            where=str(folder),
            hint="set SUBGRAFT_HOME to a place that can be written to",
        ) from error
