"""One MLflow run per system and seed: its settings, its training curve and its test scores together.

So MLflow can plot BLEU against any setting. The steps of such a run have no runs of their own; a step that several
systems share appears in each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.outbox import (
    EndRun,
    LogArtifacts,
    LogDatasets,
    LogMetrics,
    LogModel,
    Operation,
    SetTags,
)
from subgraft.orchestration.tracking.payloads import (
    SYSTEM,
    TEST,
    TRAINED,
    Point,
    StepPayload,
    curve_of,
    described,
    in_names,
    milliseconds_now,
    scores_in,
    table,
)

MEANS = "Test scores, each the mean over the seeds. The report tests their significance."
READ = {"train": "training", "dev": "validation", "test": "test"}


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
    def key(self) -> str:
        """Its name in the outbox, different from any fingerprint."""
        return f"{SYSTEM}/{self.system}/{self.seed}"

    @property
    def tags(self) -> dict[str, str]:
        prints = {f"fingerprint.{part}": step.fingerprint for part, step in self.parts.items()}
        return {"kind": SYSTEM, "system": self.system, "seed": str(self.seed), **prints}


@dataclass
class _State:
    """The state of a system's run: `cached` are the parts found in the store, `done` the records by part."""

    begun: bool = False
    ended: bool = False
    cached: set[str] = field(default_factory=set)
    done: dict[str, Record] = field(default_factory=dict)


class SystemRuns:
    """Turns events of steps into operations of the systems' runs.

    Args:
        runs: The runs of the systems.
        store: Where the steps' artifacts are.
        begin: Starts a run: key, name, params and tags.
        note: Appends an operation to the outbox.
    """

    def __init__(
        self,
        runs: Iterable[SystemRun],
        store: Store,
        begin: Callable[[str, str, Mapping[str, Any], Mapping[str, str]], None],
        note: Callable[[Operation], None],
    ) -> None:
        self._store = store
        self._begin_run = begin
        self._note = note
        self._runs = tuple(runs)
        self._states = {run.key: _State() for run in self._runs}
        self._places: dict[str, list[tuple[SystemRun, str]]] = defaultdict(list)
        for run in self._runs:
            for part, step in run.parts.items():
                self._places[step.fingerprint].append((run, part))

    def show(self, step: Step) -> bool:
        """Whether the step belongs to a system's run."""
        return step.fingerprint in self._places

    def run_of(self, step: Step) -> str | None:
        """The first run that the step belongs to."""
        return self._places[step.fingerprint][0][0].key if self.show(step) else None

    def cached(self, step: Step, record: Record) -> None:
        """A step found in the store: its figures are logged too, so that the run is complete, with the tag `cached`."""
        for run, part in self._begun(step):
            self._states[run.key].cached.add(part)
            if part == TRAINED and (points := list(curve_of(self._store, step, milliseconds_now()))):
                self._note(LogMetrics(run.key, points))
            self._finish(run, part, step, record)

    def started(self, step: Step) -> None:
        list(self._begun(step))

    def metrics(self, step: Step, points: Sequence[Point]) -> None:
        for run, part in self._begun(step):
            before = "" if part == TRAINED else f"{part}/"
            self._note(
                LogMetrics(run.key, [(f"{before}{name}", value, at, number) for name, value, at, number in points])
            )

    def warned(self, step: Step, line: str) -> None:
        for run, _ in self._begun(step):
            self._note(SetTags(run.key, {"warning": line}))

    def finished(self, step: Step, record: Record) -> None:
        for run, part in self._begun(step):
            self._finish(run, part, step, record)

    def failed(self, step: Step, status: str, said: str) -> None:
        """status: FAILED or KILLED."""
        for run, part in self._begun(step):
            self._note(SetTags(run.key, {"error": f"{part}: {said}"}))
            self._end(run, status)

    def close(self) -> None:
        """End the runs whose other steps were not made."""
        for run in self._runs:
            if self._states[run.key].begun:
                self._end(run, "KILLED")

    def scores(self) -> dict[str, dict[str, float]]:
        """The test scores by system: means over the seeds that have been tested."""
        by_system: dict[str, list[dict[str, float]]] = defaultdict(list)
        for run in self._runs:
            if TEST in (done := self._states[run.key].done):
                by_system[run.system].append(scores_in(done[TEST]))
        return {
            system: {name: fmean(one[name] for one in each) for name in each[0]} for system, each in by_system.items()
        }

    def summarise_in(self, parent: str) -> None:
        """Log each system's mean scores in the parent run, as metrics (`BLEU/mean`) and as its description."""
        scores = self.scores()
        points = [
            (in_names(f"{name}/{system}"), value, milliseconds_now(), 0)
            for system, figures in scores.items()
            for name, value in figures.items()
        ]
        if points:
            self._note(LogMetrics(parent, points))
            self._note(SetTags(parent, {"mlflow.note.content": f"{MEANS}\n\n{table(scores, 'system')}"}))

    def _begun(self, step: Step) -> list[tuple[SystemRun, str]]:
        """The step's runs and roles, after starting the runs; without those that have ended."""
        places = [place for place in self._places[step.fingerprint] if not self._states[place[0].key].ended]
        for run, _ in places:
            if not self._states[run.key].begun:
                self._states[run.key].begun = True
                self._begin_run(run.key, run.name, run.params, run.tags)
        return places

    def _finish(self, run: SystemRun, part: str, step: Step, record: Record) -> None:
        payload, now, state = StepPayload.of(record), milliseconds_now(), self._states[run.key]
        self._note(
            LogMetrics(run.key, [(in_names(f"{part}/{name}"), one, now, 0) for name, one in payload.numbers.items()])
        )
        self._note(SetTags(run.key, {in_names(f"{part}.{name}"): text for name, text in payload.texts.items()}))
        self._note(LogArtifacts(run.key, str(self._store.path(step)), payload.files, part))
        state.done[part] = record
        if state.done.keys() == run.parts.keys():
            self._end(run, "FINISHED")

    def _end(self, run: SystemRun, status: str) -> None:
        state = self._states[run.key]
        if state.ended:
            return
        state.ended = True
        self._note(SetTags(run.key, {"cached": str(state.cached >= run.parts.keys()).lower()}))
        datasets = self._datasets(run)
        if datasets:
            self._note(LogDatasets(run.key, datasets))
        if TRAINED in state.done:
            tested = next(((one["name"], one["digest"]) for one in datasets if one["context"] == "test"), None)
            self._note(self._model(run, state, tested))
        self._note(EndRun(run.key, status, milliseconds_now()))

    def _datasets(self, run: SystemRun) -> list[Mapping[str, str]]:
        datasets: list[Mapping[str, str]] = []
        for step in run.corpora:
            record = self._store.find(step)
            datasets += described(record, self._store.path(step), READ) if record else []
        return datasets

    def _model(self, run: SystemRun, state: _State, tested: tuple[str, str] | None) -> LogModel:
        step, record = run.parts[TRAINED], state.done[TRAINED]
        tags = {
            "system": run.system,
            "seed": str(run.seed),
            "fingerprint": step.fingerprint,
            "digest": record.digest,
            "directory": str(self._store.path(step)),
        }
        scores = scores_in(state.done[TEST]) if TEST in state.done else {}
        points = [(in_names(f"{TEST}/{name}"), value, milliseconds_now(), 0) for name, value in scores.items()]
        return LogModel(run.key, in_names(run.name).replace(".", "_"), tags, points, tested)
