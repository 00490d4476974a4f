"""Records trials in the ledger, in MLflow, on the page and on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import planned_trials, template, trial_steps, trial_system
from subgraft.experiments.search.trial_results import Ledger, State, TrialResult, Value, ended
from subgraft.orchestration.execution.progress import rounded_duration
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.tracker import Tracker

STATUS = {"finished": "FINISHED", "stopped": "KILLED", "refused": "FAILED", "failed": "FAILED"}


class Recorder:
    """Records the events of all trials, in one thread; `changed` is called when the page needs an update."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        ledger: Ledger,
        tracker: Tracker,
        say: Callable[[str], None],
        changed: Callable[[Iterable[TrialResult]], None],
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._ledger = ledger
        self._tracker = tracker
        self._say = say
        self._changed = changed
        self._reported: set[str] = set()
        self._start_times: dict[int, float] = {}
        self._absent_steps: dict[int, set[str]] = {}  # by running trial: the steps that did not exist when it started
        self._ended_count = 0
        self._planned = planned_trials(pipeline)
        self.trials = ledger.trials()

    def exclude_shared(self, steps: Sequence[Step]) -> None:
        """Credit no trial with these steps, which were made and recorded before any."""
        self._reported.update(step.fingerprint for step in steps)

    def report_earlier(self) -> None:
        """Report the trials of earlier invocations, and record them under this one as well."""
        earlier = ended(self.trials.values())
        for trial in earlier:
            self._open(trial, cached=True)
            self._close(trial)
        if earlier:
            self._say(f"[cached]   {len(earlier)} trials")

    def begin(self, number: int, values: Mapping[str, Value]) -> None:
        trial = TrialResult(number, values)
        self._start_times[number] = time.monotonic()
        self._note(trial)
        self._open(trial, cached=False)
        self._record_cached(trial)
        self._say(f"[started]  {trial.name} of {self._planned}: {in_words(values)}")

    def evaluated(self, number: int, evaluation: int, bleu: float) -> None:
        """Record an evaluation of a finetuning, with the best dev BLEU so far."""
        trial = self.trials[number]
        self.trials[number] = replace(trial, curve=(*trial.curve, (evaluation, bleu)))
        self._tracker.measure(trial.name, {"best_dev_bleu": bleu}, evaluation)
        self._say(f"[running]  {trial.name}: dev BLEU {bleu:.2f} after evaluation {evaluation}")

    def end(self, number: int, state: State, objectives: Mapping[str, float], said: str = "") -> None:
        trial = self.trials[number]
        made, shared = self._credit_steps(trial)
        self._absent_steps.pop(number)
        seconds = round(time.monotonic() - self._start_times[number], 1)
        self._ended_count += 1
        trial = replace(
            trial, state=state, objectives=dict(objectives), seconds=seconds, made=made, shared=shared, said=said
        )
        self._note(trial)
        self._close(trial)
        outcome = in_words(objectives) or said.partition("\n")[0]
        self._say(f"{f'[{state}]':10} {trial.name}: {outcome} ({rounded_duration(seconds)}{self._time_left()})")

    def leave(self) -> None:
        """Close the MLflow runs of interrupted trials. The ledger records no end of them, so they are repeated."""
        for number in self._start_times:
            if self.trials[number].state == "running":
                self._tracker.end(self.trials[number].name, "KILLED", {"state": "cut short"})

    def _note(self, trial: TrialResult) -> None:
        self.trials[trial.number] = trial
        self._ledger.note(trial)
        self._changed(self.trials.values())

    def _record_cached(self, trial: TrialResult) -> None:
        """Record at once the cached artifacts that a trial uses, so that no garbage collection removes them.

        Artifacts that a running trial has just made are recorded by that trial.
        """
        being_made = set[str]().union(*self._absent_steps.values())
        absent = set()
        for step in in_order(trial_steps(self._pipeline, trial).targets):
            record = self._store.find(step)
            if record is None:
                absent.add(step.fingerprint)
            elif step.fingerprint not in self._reported | being_made:
                self._reported.add(step.fingerprint)
                self._tracker.nest(step, trial.name)
                self._tracker.cached(step, record)
        self._absent_steps[trial.number] = absent

    def _time_left(self) -> str:
        """The time left at this invocation's pace, as the end of a line."""
        left = self._planned - len(ended(self.trials.values()))
        pace = (time.monotonic() - min(self._start_times.values())) / self._ended_count
        return f", {rounded_duration(left * pace)} left" if left > 0 else ""

    def _credit_steps(self, trial: TrialResult) -> tuple[dict[str, float], int]:
        """Credit a trial with its steps that exist now and that no trial was credited with.

        Returns their seconds by name, and the number of its other steps.
        """
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
        system = trial_system(template(self._pipeline), trial)
        tags = {"trial": str(trial.number), "system": system.name, "cached": str(cached).lower()}
        for step in trial_steps(self._pipeline, trial).targets:
            tags[f"fingerprint.{step.stage.stage_name}"] = step.fingerprint
        self._tracker.begin(trial.name, system.model_dump(mode="json"), tags)

    def _close(self, trial: TrialResult) -> None:
        self._tracker.measure(trial.name, {**trial.objectives, "seconds": trial.seconds})
        tag = "error" if trial.state in ("refused", "failed") else "warnings"
        tags = {"state": trial.state, **({tag: trial.said} if trial.said else {})}
        self._tracker.end(trial.name, STATUS[trial.state], tags)


def in_words(values: Mapping[str, Any]) -> str:
    """As `initialiser patt, kd_weight 0.31`."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
