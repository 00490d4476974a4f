"""Runs on the tracking server: one for the invocation, and below it one for each system and seed.

A system's run has its settings, training curve and test scores together, so that MLflow can plot BLEU against any
setting; a step that several systems share appears in each of them. A step outside the systems, such as a pretraining
that all share, gets its own run when it is made; cached steps get none.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from subgraft.base.errors import OperationalError
from subgraft.orchestration.store.events import Metrics, Observer, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step, flatten
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking import outbox, payloads
from subgraft.orchestration.tracking.model_registry import RegisterModel
from subgraft.orchestration.tracking.payloads import (
    FINGERPRINT,
    SYSTEM,
    TEST,
    TRAINED,
    milliseconds_now,
    to_metric_name,
)

PARENT = "invocation"
# Tags that identify the step of a run.
IDENTITY = ("stage", FINGERPRINT, "git_commit")
MEANS_NOTE = "Test scores, each the mean over the seeds. The report tests their significance."


@dataclass(frozen=True, slots=True)
class SystemRun:
    """A system under one seed, as a run in MLflow.

    Attributes:
        params: Its settings, nested.
        parts: Its steps by role; the role is the prefix of their figures: `test/BLEU`.
        corpora: The steps of the corpora that it is trained and tested on.
    """

    system: str
    seed: int
    params: Mapping[str, Any]
    parts: Mapping[str, Step]
    corpora: Sequence[Step]

    @property
    def name(self) -> str:
        return f"{self.system} seed {self.seed}"

    @property
    def tags(self) -> dict[str, str]:
        prints = {f"{FINGERPRINT}.{part}": step.fingerprint for part, step in self.parts.items()}
        return {"kind": SYSTEM, "system": self.system, "seed": str(self.seed), **prints}


@dataclass
class _Run:
    """A run below the invocation's: of a system, or of one step outside the systems, which is its only part, "".

    Attributes:
        key: Its name in the outbox.
        cached: The parts that were in the store before.
        done: The records of the finished parts.
    """

    key: str
    system: SystemRun | None = None
    started: bool = False
    ended: bool = False
    cached: set[str] = field(default_factory=set)
    done: dict[str, Record] = field(default_factory=dict)


class Tracker(Observer):
    """An observer that writes everything to an outbox, which a thread delivers; no call here waits for the server.

    A step's own run has its flattened recipe as params, its labels and identity as tags, and the stage's metrics and
    the numbers of its summary as metrics; texts of the summary become tags, and its list `artifacts` names small files
    to upload. Name, params and tags are of the invocation's run, which gets the files of the step `report`.
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
        self.name = name or time.strftime(f"{experiment}-%Y%m%d-%H%M%S")
        self._store = store
        self._say = say
        self._experiment = experiment
        self._outbox = _new_outbox(store)
        self._reported_loss = False
        self._last_start = 0
        self._cached: dict[str, None] = {}  # in order
        self._made: set[str] = set()
        self._parents: dict[str, str] = {}
        self._last_points: dict[tuple[str, str], int] = {}
        self._systems: list[tuple[SystemRun, _Run]] = []
        self._appearances: dict[str, list[tuple[_Run, str]]] = defaultdict(list)  # by fingerprint: runs and parts
        if report:
            self._appearances[report.fingerprint].append((_Run(PARENT, started=True), ""))
        for system in systems:
            run = _Run(f"{SYSTEM}/{system.system}/{system.seed}", system)
            self._systems.append((system, run))
            for part, step in system.parts.items():
                self._appearances[step.fingerprint].append((run, part))
        self._other_runs: dict[str, _Run] = {}
        provenance = Provenance.here()
        self._source = payloads.source_tags(provenance)
        self._start(PARENT, None, self.name, params or {}, {"argv": " ".join(provenance.argv), **(tags or {})})
        self._delivery = outbox.Delivery(self._outbox, store.home, uri, say)

    def cached(self, step: Step, record: Record) -> None:
        """A system's run gets the figures of cached steps too, so that it is complete."""
        self._note(outbox.Pin(step.fingerprint))
        self._cached[step.fingerprint] = None
        if step.fingerprint not in self._appearances:
            return
        for run, part in self._started_runs(step):
            run.cached.add(part)
            if part == TRAINED and (points := list(payloads.curve_of(self._store, step, milliseconds_now()))):
                self._note(outbox.LogMetrics(run.key, points))
            self._finish(run, part, step, record)

    def started(self, step: Step) -> None:
        if step.fingerprint not in self._made:
            self._made.add(step.fingerprint)
            self._note(outbox.Pin(step.fingerprint))
        self._started_runs(step)

    def metrics(self, step: Step, event: Metrics) -> None:
        self.started(step)
        # A resumed training repeats the steps after its checkpoint.
        curves = {name: (step.fingerprint, name) for name in event.values}
        new = [name for name, curve in curves.items() if event.step > self._last_points.get(curve, -1)]
        self._last_points.update((curves[name], event.step) for name in new)
        now = int(event.time * 1000)
        for run, part in self._started_runs(step) if new else ():
            prefix = f"{part}/" if part not in ("", TRAINED) else ""
            points = [(f"{prefix}{name}", event.values[name], now, event.step) for name in new]
            self._note(outbox.LogMetrics(run.key, points))

    def warned(self, step: Step, event: Warned) -> None:
        self.started(step)
        for run, _ in self._started_runs(step):
            self._note(outbox.SetTags(run.key, {"warning": event.line}))

    def finished(self, step: Step, record: Record) -> None:
        self.started(step)
        for run, part in self._started_runs(step):
            self._finish(run, part, step, record)

    def failed(self, step: Step, error: BaseException) -> None:
        self.started(step)
        message = str(error) or type(error).__name__
        for run, part in self._started_runs(step):
            self._note(outbox.SetTags(run.key, {"error": f"{part}: {message}" if part else message}))
            if run.key != PARENT:
                self._end(run, "FAILED" if isinstance(error, Exception) else "KILLED")

    def begin(self, run: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Start a child run that is not a stage; use `measure` and `end` on it."""
        self._start(run, PARENT, run, params, tags)

    def measure(self, run: str, values: Mapping[str, float], step: int = 0) -> None:
        """Log points of its curves."""
        points = [(name, float(value), milliseconds_now(), step) for name, value in values.items()]
        self._note(outbox.LogMetrics(run, points))

    def end(self, run: str, status: str, tags: Mapping[str, str]) -> None:
        """status: FINISHED, FAILED or KILLED."""
        self._note(outbox.SetTags(run, tags))
        self._note(outbox.EndRun(run, status, milliseconds_now()))

    def nest(self, step: Step, run: str) -> None:
        """Put a stage's run below a child run, unless it has a parent already."""
        self._parents.setdefault(step.fingerprint, run)

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
        all_tags = {"fingerprint": step.fingerprint, **step.labels, **(tags or {})}
        directory = str(self._store.path(step))
        texts = str(self._store.path(evaluation)) if evaluation else ""
        run, _ = self._appearances_of(step)[0]
        self._begin(run, step)
        self._note(RegisterModel(run.key, model, directory, record.digest, list(aliases), all_tags, card, texts))

    def close(self, status: str = "FINISHED") -> bool:
        """End the parent run (FINISHED, FAILED, KILLED) and deliver; False, with one line, if some remains."""
        for _, run in self._systems:
            if run.started:  # its other steps were not made
                self._end(run, "KILLED")
        self._log_means()
        if self._cached or self._made:
            counts = {
                "steps/found": float(len(self._cached)),
                "steps/made": float(len(self._made - self._cached.keys())),
            }
            self.measure(PARENT, counts)
            self._note(outbox.SetTags(PARENT, payloads.cached_tags(list(self._cached))))
        self._note(outbox.EndRun(PARENT, status, milliseconds_now()))
        if self._delivery.finish():
            return True
        self._say(f"not all of this run is recorded yet: {self._outbox.path} is sent with the next run")
        return False

    def _note(self, operation: outbox.Operation) -> None:
        try:
            self._outbox.append(operation)
        except OSError as error:  # a failure to record must not end the training
            if not self._reported_loss:
                self._reported_loss = True
                self._say(f"tracking: part of the record is lost ({self._outbox.path}: {error.strerror})")

    def _appearances_of(self, step: Step) -> list[tuple[_Run, str]]:
        """The runs that show the step, each with its part in them."""
        if step.fingerprint in self._appearances:
            return self._appearances[step.fingerprint]
        return [(self._other_runs.setdefault(step.fingerprint, _Run(step.fingerprint)), "")]

    def _started_runs(self, step: Step) -> list[tuple[_Run, str]]:
        """Start the runs that show the step, and return each with its part. Ended runs of systems are left out."""
        appearances = [(run, part) for run, part in self._appearances_of(step) if not (run.system and run.ended)]
        for run, _ in appearances:
            self._begin(run, step)
        return appearances

    def _begin(self, run: _Run, step: Step) -> None:
        """Start a run, unless it has started before; `step` is the step of a run outside the systems."""
        if run.started:
            return
        run.started = True
        if run.system is not None:
            self._start(run.key, PARENT, run.system.name, run.system.params, run.system.tags)
            return
        identity = {"stage": step.stage.stage_name, FINGERPRINT: step.fingerprint, "cached": "false"}
        parent = self._parents.get(step.fingerprint, PARENT)
        self._start(run.key, parent, step.name, step.stage.model_dump(mode="json"), {**identity, **step.labels})

    def _start(
        self, run: str, parent: str | None, name: str, params: Mapping[str, Any], tags: Mapping[str, str]
    ) -> None:
        flat = {key: str(value) for key, value in flatten(params).items()}
        self._last_start = max(milliseconds_now(), self._last_start + 1)  # runs are listed by their start
        tags = {**self._source, **tags}
        self._note(outbox.StartRun(run, parent, self._experiment, name, tags, flat, self._last_start))

    def _finish(self, run: _Run, part: str, step: Step, record: Record) -> None:
        payload, directory = payloads.StepPayload.of(record), str(self._store.path(step))
        if run.key == PARENT:
            self._note(outbox.SetTags(PARENT, {f"{FINGERPRINT}.{step.stage.stage_name}": step.fingerprint}))
            self._note(outbox.LogArtifacts(PARENT, directory, payload.files, step.stage.stage_name))
            return
        self._note(outbox.LogMetrics(run.key, _points(payload.numbers, f"{part}/" if part else "")))
        if part:
            tags = {to_metric_name(f"{part}.{name}"): text for name, text in payload.texts.items()}
        else:  # a vocabulary's summary has a fingerprint, which must not replace the step's
            tags = {f"summary.{name}" if name in IDENTITY else name: text for name, text in payload.texts.items()}
        self._note(outbox.SetTags(run.key, tags))
        self._note(outbox.LogArtifacts(run.key, directory, payload.files, part))
        run.done[part] = record
        if run.system is None or run.done.keys() == run.system.parts.keys():
            self._end(run, "FINISHED")

    def _end(self, run: _Run, status: str) -> None:
        if run.system is not None:
            if run.ended:
                return
            run.ended = True
            self._describe(run, run.system)
        self._note(outbox.EndRun(run.key, status, milliseconds_now()))

    def _describe(self, run: _Run, system: SystemRun) -> None:
        """Add to a system's run whether all of it was cached, its datasets, and the model that it trained."""
        self._note(outbox.SetTags(run.key, {"cached": str(run.cached >= system.parts.keys()).lower()}))
        records = [(record, self._store.path(step)) for step in system.corpora if (record := self._store.find(step))]
        datasets = [dataset for record, path in records for dataset in payloads.describe_datasets(record, path)]
        if datasets:
            self._note(outbox.LogDatasets(run.key, datasets))
        if TRAINED not in run.done:
            return
        step, record = system.parts[TRAINED], run.done[TRAINED]
        tags = {
            "system": system.system,
            "seed": str(system.seed),
            "fingerprint": step.fingerprint,
            "digest": record.digest,
            "directory": str(self._store.path(step)),
        }
        points = _points(payloads.scores_in(run.done[TEST]), f"{TEST}/") if TEST in run.done else []
        test_dataset = next(
            ((dataset["name"], dataset["digest"]) for dataset in datasets if dataset["context"] == "test"), None
        )
        self._note(outbox.LogModel(run.key, to_metric_name(system.name).replace(".", "_"), tags, points, test_dataset))

    def _log_means(self) -> None:
        """Log each system's mean scores in the parent run, as metrics (`BLEU/mean`) and as its description."""
        by_system: dict[str, list[dict[str, float]]] = defaultdict(list)
        for system, run in self._systems:
            if TEST in run.done:
                by_system[system.system].append(payloads.scores_in(run.done[TEST]))
        means = {
            name: {score: fmean(seed_scores[score] for seed_scores in seeds) for score in seeds[0]}
            for name, seeds in by_system.items()
        }
        numbers = {f"{score}/{name}": value for name, scores in means.items() for score, value in scores.items()}
        if numbers:
            self._note(outbox.LogMetrics(PARENT, _points(numbers)))
            note = f"{MEANS_NOTE}\n\n{payloads.table(means)}"
            self._note(outbox.SetTags(PARENT, {"mlflow.note.content": note}))


def _points(numbers: Mapping[str, float], prefix: str = "") -> list[payloads.Point]:
    """Figures as curves with one point, at the current time."""
    return [(to_metric_name(f"{prefix}{name}"), value, milliseconds_now(), 0) for name, value in numbers.items()]


def _new_outbox(store: Store) -> outbox.Outbox:
    folder = store.home / "tracking"
    try:
        return outbox.Outbox.create(folder)
    except OSError as error:
        message, hint = f"cannot write there: {error.strerror}", "set SUBGRAFT_HOME to a place that can be written to"
        raise OperationalError(message, where=str(folder), hint=hint) from error
