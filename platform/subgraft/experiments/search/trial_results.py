"""Trials of a search with their results, the ledger that stores them, and the data of the search's page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from subgraft.base import json_io
from subgraft.config.experiment.search import MINIMISED
from subgraft.evaluation.reporting.records import Command
from subgraft.orchestration.store.disk import space_needed

Value: TypeAlias = str | int | float
# finished: measured.  stopped: by ASHA.  refused: impossible settings.  failed: to be repeated.
State = Literal["running", "finished", "stopped", "refused", "failed"]


@dataclass(frozen=True)
class TrialResult:
    """A trial: its values, and its results so far.

    values: by the system's field, without fields that the trial does not use.  curve: best dev BLEU up to each
    observed evaluation.  made: the steps that this trial ran, with their seconds.  shared: the number of its other
    steps.  said: the error of a refused or failed trial, or warnings.
    """

    number: int
    values: Mapping[str, Value]
    state: State = "running"
    objectives: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    made: Mapping[str, float] = field(default_factory=dict)
    shared: int = 0
    said: str = ""

    @property
    def name(self) -> str:
        """The name of the trial's system."""
        return f"trial-{self.number}"


@dataclass(frozen=True)
class SearchData:
    """The data of a search's page.

    importance: by objective and parameter.  systems: the best as a configuration.  planned: the number of trials.
    """

    name: str
    languages: tuple[str, str]
    parameters: tuple[str, ...]
    objectives: tuple[str, ...]
    planned: int
    trials: tuple[TrialResult, ...]
    importance: Mapping[str, Mapping[str, float]]
    systems: str
    commands: tuple[Command, ...]
    generated: bool

    @property
    def over(self) -> bool:
        """Whether all trials have ended."""
        return len(ended(self.trials)) >= self.planned


def ended(trials: Iterable[TrialResult]) -> tuple[TrialResult, ...]:
    """The trials that need no repetition."""
    return tuple(trial for trial in trials if trial.state in ("finished", "stopped", "refused"))


def best(trials: Iterable[TrialResult], objectives: Sequence[str]) -> tuple[TrialResult, ...]:
    """The Pareto front of finished trials, those best in the first objective first.

    Of trials that are equal in all objectives, the first.
    """
    finished = [trial for trial in trials if trial.state == "finished"]
    points = {trial.number: tuple(_score(trial, name) for name in objectives) for trial in finished}

    def is_beaten(trial: TrialResult) -> bool:
        point = points[trial.number]
        return any(
            all(theirs >= ours for theirs, ours in zip(other, point, strict=True))
            and (other != point or number < trial.number)
            for number, other in points.items()
            if number != trial.number
        )

    front = [trial for trial in finished if not is_beaten(trial)]
    return tuple(sorted(front, key=lambda trial: points[trial.number], reverse=True))


def ordered(trials: Sequence[TrialResult], objectives: Sequence[str]) -> list[TrialResult]:
    """Finished trials before others: those that no other beats, then by the objectives, the first one first."""
    front = {trial.number for trial in best(trials, objectives)}

    def rank(trial: TrialResult) -> tuple[bool, bool, list[float]]:
        scores = [-_score(trial, name) for name in objectives] if trial.state == "finished" else []
        return trial.state != "finished", trial.number not in front, scores

    return sorted(trials, key=rank)


def _score(trial: TrialResult, objective: str) -> float:
    """The higher, the better."""
    return -trial.objectives[objective] if objective in MINIMISED else trial.objectives[objective]


class Ledger:
    """The trials of one search as JSON lines, from which a later invocation continues. One process writes them.

    Tune would store its state as pickles and load them; the ledger replaces that. A trial has a line when it starts and
    one when it ends. A trial that only started, or failed, is repeated with its number and values.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def trials(self) -> dict[int, TrialResult]:
        """All trials by number; a line that a kill has cut off is ignored."""
        trials = dict[int, TrialResult]()
        for fields, _ in json_io.read_log(self.path):
            with contextlib.suppress(ValueError):
                trial = json_io.build(TrialResult, fields)
                trials[trial.number] = trial
        return trials

    def note(self, trial: TrialResult) -> None:
        """Write a trial's current state to disk. Raises OperationalError if the disk is full."""
        with space_needed(self.path.parent):
            json_io.append(self.path, asdict(trial), durable=True)


def unfinished_trials(trials: Mapping[int, TrialResult]) -> list[TrialResult]:
    """The trials that started and did not end, by number."""
    done = {trial.number for trial in ended(trials.values())}
    return [trial for number, trial in sorted(trials.items()) if number not in done]
