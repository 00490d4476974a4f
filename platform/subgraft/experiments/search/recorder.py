"""Records trials in the ledger, in MLflow, on the page and on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import template, trial_steps, trial_system, wanted
from subgraft.experiments.search.trial_results import Ledger, State, TrialResult, Value, ended
from subgraft.orchestration.execution.progress import duration
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.tracker import Tracker

STATUS = {"finished": "FINISHED", "stopped": "KILLED", "refused": "FAILED", "failed": "FAILED"}


class Recorder:
    """Receives the events of all trials, in one thread; `changed` is called when the page needs an update."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        ledger: Ledger,
        tracker: Tracker,
        say: Callable[[str], None],
        changed: Callable[[Mapping[int, TrialResult]], None],
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._ledger = ledger
        self._tracker = tracker
        self._say = say
        self._changed = changed
        self._reported: set[str] = set()
        self._began: dict[int, float] = {}
        self._awaited: dict[int, set[str]] = {}  # of running trials: the steps that were not there when they began
        self._ended_here = 0
        self.trials = ledger.trials()

    def shared_by_all(self, steps: Sequence[Step]) -> None:
        """Steps that were made, and recorded, before any trial."""
        self._reported.update(step.fingerprint for step in steps)

    def earlier(self) -> None:
        """Report the trials of earlier invocations, and record them under this one as well."""
        before = ended(tuple(self.trials.values()))
        for trial in before:
            self._open(trial, cached=True)
            self._close(trial)
        if before:
            self._say(f"[cached]   {len(before)} trials")

    def begin(self, number: int, values: Mapping[str, Value]) -> None:
        trial = TrialResult(number, values)
        self._began[number] = time.monotonic()
        self._note(trial)
        self._open(trial, cached=False)
        self._name_cached(trial)
        self._say(f"[started]  {trial.name} of {self._wanted}: {in_words(values)}")

    def evaluated(self, number: int, evaluation: int, bleu: float) -> None:
        """Record an evaluation of a finetuning, with the best dev BLEU so far."""
        trial = self.trials[number]
        self.trials[number] = replace(trial, curve=(*trial.curve, (evaluation, bleu)))
        self._tracker.measure(trial.name, {"best_dev_bleu": bleu}, evaluation)
        self._say(f"[running]  {trial.name}: dev BLEU {bleu:.2f} after evaluation {evaluation}")

    def end(self, number: int, state: State, objectives: Mapping[str, float], said: str = "") -> None:
        trial = self.trials[number]
        made, shared = self._taken(trial)
        self._awaited.pop(number)
        seconds = round(time.monotonic() - self._began[number], 1)
        self._ended_here += 1
        trial = replace(
            trial, state=state, objectives=dict(objectives), seconds=seconds, made=made, shared=shared, said=said
        )
        self._note(trial)
        self._close(trial)
        outcome = in_words(objectives) or said.partition("\n")[0]
        self._say(f"{f'[{state}]':10} {trial.name}: {outcome} ({duration(seconds)}{self._left()})")

    def leave(self) -> None:
        """End the record of interrupted trials. In the ledger they have no end, so they are repeated."""
        for number in self._began:
            if self.trials[number].state == "running":
                self._tracker.end(self.trials[number].name, "KILLED", {"state": "cut short"})

    def _note(self, trial: TrialResult) -> None:
        self.trials[trial.number] = trial
        self._ledger.note(trial)
        self._changed(self.trials)

    @property
    def _wanted(self) -> int:
        return wanted(self._pipeline)

    def _name_cached(self, trial: TrialResult) -> None:
        """Record at once the cached artifacts that a trial uses, so that no garbage collection removes them.

        Artifacts that a running trial has just made are recorded by that trial.
        """
        awaited = set[str]().union(*self._awaited.values())
        absent = set()
        for step in in_order(trial_steps(self._pipeline, trial).targets):
            record = self._store.find(step)
            if record is None:
                absent.add(step.fingerprint)
            elif step.fingerprint not in self._reported | awaited:
                self._reported.add(step.fingerprint)
                self._tracker.nest(step, trial.name)
                self._tracker.cached(step, record)
        self._awaited[trial.number] = absent

    def _left(self) -> str:
        """The time left at the pace of this invocation's trials."""
        left = self._wanted - len(ended(tuple(self.trials.values())))
        pace = (time.monotonic() - min(self._began.values())) / self._ended_here
        return f", {duration(left * pace)} left" if left > 0 else ""

    def _taken(self, trial: TrialResult) -> tuple[dict[str, float], int]:
        """The steps that exist now and are credited to no trial yet, with their seconds; and the others."""
        made: dict[str, float] = {}
        shared = 0
        for step in in_order(trial_steps(self._pipeline, trial).targets):
            record = self._store.find(step)
            if record is not None and step.fingerprint not in self._reported:
                self._reported.add(step.fingerprint)
                self._tracker.nest(step, trial.name)
                self._tracker.finished(step, record)
                made[step.name] = record.seconds
            elif record is not None:
                shared += 1
        return made, shared

    def _open(self, trial: TrialResult, *, cached: bool) -> None:
        steps = trial_steps(self._pipeline, trial)
        system = trial_system(template(self._pipeline), trial)
        prints = {f"fingerprint.{step.stage.name}": step.fingerprint for step in steps.targets}
        tags: dict[str, str] = {
            "trial": str(trial.number),
            "system": system.name,
            "cached": str(cached).lower(),
            **prints,
        }
        params: dict[str, Any] = system.model_dump(mode="json")
        self._tracker.begin(trial.name, params, tags)

    def _close(self, trial: TrialResult) -> None:
        self._tracker.measure(trial.name, {**trial.objectives, "seconds": trial.seconds})
        said = "error" if trial.state in ("refused", "failed") else "warnings"
        tags = {"state": trial.state, **({said: trial.said} if trial.said else {})}
        self._tracker.end(trial.name, STATUS[trial.state], tags)


def in_words(values: Mapping[str, Any]) -> str:
    """As `initialiser patt, kd_weight 0.31`."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
