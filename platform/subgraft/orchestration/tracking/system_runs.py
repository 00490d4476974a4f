"""One run for a system under one seed: its settings, the curve of its training and its test scores together.

So MLflow can plot BLEU against any setting. The steps that such a run shows have no runs of their own; a step that
several systems share is shown by each of them.
"""

from __future__ import annotations

import time
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
from subgraft.orchestration.tracking.payloads import Point, StepPayload, curve_of, described, in_names, scores_in, table
from subgraft.orchestration.tracking.tags import SYSTEM, TEST, TRAINED

MEANS = "Test scores, each the mean over the seeds. What of it is more than luck, the report says."
READ = {"train": "training", "dev": "validation", "test": "test"}


@dataclass(frozen=True, slots=True)
class SystemRun:
    """A system under one seed, as MLflow will show it.

    params: its settings, nested.  parts: the steps that it shows, by the part they have in it, which stands before the
    names of their figures: `test/BLEU`.  corpora: the steps of the text that it is trained and tested on.
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
        """Its name in the outbox, which no fingerprint is."""
        return f"{SYSTEM}/{self.system}/{self.seed}"

    @property
    def tags(self) -> dict[str, str]:
        prints = {f"fingerprint.{part}": step.fingerprint for part, step in self.parts.items()}
        return {"kind": SYSTEM, "system": self.system, "seed": str(self.seed), **prints}


@dataclass
class _State:
    """What is known of a system's run by now. cached: the parts that were there already.  done: records by part."""

    begun: bool = False
    ended: bool = False
    cached: set[str] = field(default_factory=set)
    done: dict[str, Record] = field(default_factory=dict)


class SystemRuns:
    """Hears of steps, and notes what the runs of systems show of them.

    begin: begins a run, given its key, name, params and tags.  note: keeps an operation.
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
        """Whether the step is shown by a system's run."""
        return step.fingerprint in self._places

    def run_of(self, step: Step) -> str | None:
        """The first run that shows the step."""
        return self._places[step.fingerprint][0][0].key if self.show(step) else None

    def cached(self, step: Step, record: Record) -> None:
        """It was there already. Its figures are shown all the same, so that a run is whole; its tag `cached` tells."""
        for run, part in self._begun(step):
            self._states[run.key].cached.add(part)
            if part == TRAINED and (points := list(curve_of(self._store, step, _now()))):
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
        """End the runs whose other steps have not come about."""
        for run in self._runs:
            if self._states[run.key].begun:
                self._end(run, "KILLED")

    def scores(self) -> dict[str, dict[str, float]]:
        """The test scores by system: means over the seeds that have been tested."""
        found: dict[str, list[dict[str, float]]] = defaultdict(list)
        for run in self._runs:
            if TEST in (done := self._states[run.key].done):
                found[run.system].append(scores_in(done[TEST]))
        return {system: {name: fmean(one[name] for one in each) for name in each[0]} for system, each in found.items()}

    def tell_above(self, parent: str) -> None:
        """The mean scores of each system, as figures of the run above them (`BLEU/mean`) and as its description."""
        scores = self.scores()
        points = [
            (in_names(f"{name}/{system}"), value, _now(), 0)
            for system, figures in scores.items()
            for name, value in figures.items()
        ]
        if points:
            self._note(LogMetrics(parent, points))
            self._note(SetTags(parent, {"mlflow.note.content": f"{MEANS}\n\n{table(scores, 'system')}"}))

    def _begun(self, step: Step) -> list[tuple[SystemRun, str]]:
        """Where the step is shown, in runs that have begun now and have not ended."""
        places = [place for place in self._places[step.fingerprint] if not self._states[place[0].key].ended]
        for run, _ in places:
            if not self._states[run.key].begun:
                self._states[run.key].begun = True
                self._begin_run(run.key, run.name, run.params, run.tags)
        return places

    def _finish(self, run: SystemRun, part: str, step: Step, record: Record) -> None:
        told, now, state = StepPayload.of(record), _now(), self._states[run.key]
        self._note(
            LogMetrics(run.key, [(in_names(f"{part}/{name}"), one, now, 0) for name, one in told.numbers.items()])
        )
        self._note(SetTags(run.key, {in_names(f"{part}.{name}"): text for name, text in told.texts.items()}))
        self._note(LogArtifacts(run.key, str(self._store.path(step)), told.files, part))
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
        self._note(EndRun(run.key, status, _now()))

    def _datasets(self, run: SystemRun) -> list[Mapping[str, str]]:
        found: list[Mapping[str, str]] = []
        for step in run.corpora:
            record = self._store.find(step)
            found += described(record, self._store.path(step), READ) if record else []
        return found

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
        points = [(in_names(f"{TEST}/{name}"), value, _now(), 0) for name, value in scores.items()]
        return LogModel(run.key, in_names(run.name).replace(".", "_"), tags, points, tested)


def _now() -> int:
    return int(time.time() * 1000)
