"""Progress of a run as calls of a function, for notebooks and other programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from subgraft.orchestration.store.events import Observer, Progress
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step


@dataclass(frozen=True)
class StepProgress:
    """The progress of one step of a run.

    Attributes:
        step: Its name, as the plan shows it.
        done: How much of it is done, in `unit`.
        total: How much there is to do; 0 if unknown.
        unit: Updates of a training ("steps"), sentences, and so on.
        now: Its current state, such as a loss.
        finished: Whether its result is stored.
    """

    step: str
    done: int = 0
    total: int = 0
    unit: str = ""
    now: str = ""
    finished: bool = False


ProgressCallback: TypeAlias = Callable[[StepProgress], None]


class CallbackObserver(Observer):
    """Calls a function at the start, the progress and the end of each step that runs.

    A function that raises an exception does not stop the run: a warning reports it, and it is not called again.
    """

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback: ProgressCallback | None = callback

    def started(self, step: Step) -> None:
        self._call(StepProgress(step.name))

    def progress(self, step: Step, event: Progress) -> None:
        self._call(StepProgress(step.name, event.done, event.total, event.what, event.now))

    def finished(self, step: Step, record: Record) -> None:
        self._call(StepProgress(step.name, finished=True))

    def _call(self, progress: StepProgress) -> None:
        if self._callback is None:
            return
        try:
            self._callback(progress)
        except Exception as error:
            self._callback = None
            message = f"the progress callback raised {type(error).__name__}: {error}; it is not called again"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
