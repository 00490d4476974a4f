"""A stage's context that looks on, and that may kill the stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.runtime import Runtime


class KilledError(Exception):
    """Stands for a kill: raised in the middle of a training."""


class Watched:
    """The context of a stage that may be killed once a step is reported; it keeps every step that reports `metric`."""

    command = ""

    def __init__(self, work: Path, die_at: int | None, metric: str = "train_loss") -> None:
        self.work = work
        self.die_at = die_at
        self.metric = metric
        self.cache = work / "encoded"
        self.measured = work / "measured"
        # One after every update, so that it is known which is the last.
        self.runtime = Runtime(checkpoint_seconds=1e-6, checkpoints_in_background=False)
        self.steps: list[int] = []
        self.shown: list[str] = []
        self.notes: list[str] = []

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        self.shown.append(now)

    def warn(self, line: str) -> None:
        raise AssertionError(line)

    def note(self, line: str) -> None:
        self.notes.append(line)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if self.metric in values:
            self.steps.append(step)
            if step == self.die_at:
                raise KilledError
