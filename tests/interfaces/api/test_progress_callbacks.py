"""Functions that are called with a run's progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft import StepProgress
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.interfaces.api.progress import CallbackObserver
from subgraft.orchestration.store.events import Progress

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def test_a_function_that_raises_is_warned_of_once_and_not_called_again(tmp_path: Path) -> None:
    step = Pipeline(load(CONFIGS / "quickstart.yaml", Experiment), tmp_path).report
    calls: list[StepProgress] = []

    def callback(progress: StepProgress) -> None:
        calls.append(progress)
        if progress.done == 2:
            raise ZeroDivisionError("a mistake of its own")

    observer = CallbackObserver(callback)
    observer.started(step)
    observer.progress(step, Progress(1, 9, "steps", now="loss 1.0"))
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError: a mistake of its own; it is not called again"):
        observer.progress(step, Progress(2, 9, "steps"))
    observer.progress(step, Progress(3, 9, "steps"))
    assert calls == [
        StepProgress(step.name),
        StepProgress(step.name, 1, 9, "steps", "loss 1.0"),
        StepProgress(step.name, 2, 9, "steps"),
    ]
