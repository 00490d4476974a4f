"""The trials of a search as JSON lines, from which a later invocation continues.

Tune would store its state as pickles and load them; the ledger replaces that. A trial has a line when it starts and one
when it ends. A trial that only started, or failed, is repeated with its number and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from subgraft.base import json_io
from subgraft.experiments.search.trial_results import TrialResult, ended
from subgraft.orchestration.store.disk import space_needed


class Ledger:
    """The file of one search, written by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def trials(self) -> dict[int, TrialResult]:
        """What is known of every trial, by its number; a line torn by a kill is passed over."""
        found = (_trial(fields) for fields, _ in json_io.read_log(self.path))
        return {trial.number: trial for trial in found if trial is not None}

    def note(self, trial: TrialResult) -> None:
        """Remember a trial as it stands, so that it lasts. Raises OperationalError when the disk is full."""
        with space_needed(self.path.parent):
            json_io.append(self.path, asdict(trial), lasting=True)


def to_do_again(trials: Mapping[int, TrialResult]) -> list[TrialResult]:
    """The trials that began and did not come to an end, by their number."""
    done = {trial.number for trial in ended(tuple(trials.values()))}
    return [trial for number, trial in sorted(trials.items()) if number not in done]


def _trial(fields: dict[str, Any]) -> TrialResult | None:
    try:
        return json_io.build(TrialResult, fields)
    except ValueError:
        return None
