"""Observers of a run: the display, the tracking, a search. The runner calls them; Ray and MLflow are not known here."""

from __future__ import annotations

from typing import Protocol

from subgraft.orchestration.store.events import Metrics, Progress, Warned
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step


class Observer(Protocol):
    """Called by the runner in its own thread; calls return at once and do not raise."""

    def cached(self, step: Step, record: Record) -> None:
        """The step's artifact is in the store already."""

    def started(self, step: Step) -> None:
        """The step is running now (not: was handed to the scheduler)."""

    def progress(self, step: Step, event: Progress) -> None:
        """The stage reported progress."""

    def metrics(self, step: Step, event: Metrics) -> None:
        """The stage reported values; after a kill, also those of the previous attempt."""

    def warned(self, step: Step, event: Warned) -> None:
        """The stage continues without something that was damaged."""

    def finished(self, step: Step, record: Record) -> None:
        """The step's artifact is published."""

    def failed(self, step: Step, error: BaseException) -> None:
        """The step ended with an error, or was stopped."""
