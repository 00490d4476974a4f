"""One trial, as Tune executes it: the experiment's runner with an observer.

The trial's process only waits for its steps, which are tasks of Ray's like those of any run. It takes no core, so that
on a single one its steps still find room; and a step that two trials want is made by one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from subgraft.base.errors import SubgraftError, UserError
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import trial_steps
from subgraft.experiments.search.trial_results import TrialResult
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.events import Metrics, Observer, Progress, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages import FINETUNE

# What a trial reports to Tune: while it is finetuned the evaluation and the best dev BLEU so far, in the end the rest.
EVALUATION, BLEU, STATE, SAID = "evaluation", "best_dev_bleu", "state", "said"
# A share of a resource that every cluster's head has, and nothing else.
RESOURCES = {"node:__internal_head__": 0.001}


def run_trial(
    config: Mapping[str, Any], pipeline: Pipeline, home: Path, address: str | None, provenance: Provenance
) -> None:
    """Make a trial's steps and report to Tune. config: `number` and `values`; the rest is the same for all trials."""
    # How long Tune waits for this thread to end before its process can take another trial, in place of 2 s.
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "60"
    store, runtime = Store(home), pipeline.experiment.runtime
    try:
        steps = trial_steps(pipeline, TrialResult(config["number"], config["values"]))
        watcher = Watcher(tune.report)
        run(store, steps.targets, runtime, [watcher], address=address, provenance=provenance)
        said = [*watcher.warnings, *steps.remarks(store)]
        tune.report({STATE: "finished", SAID: "; ".join(said), **steps.objectives(store)})
    except UserError as mistake:
        tune.report({STATE: "refused", SAID: str(mistake)})
    except SubgraftError as failure:
        tune.report({STATE: "failed", SAID: str(failure)})


class Watcher(Observer):
    """An observer that reports the dev scores of a finetuning, by which ASHA decides.

    Tune may end the trial within a report, by SystemExit; the runner then stops the finetuning, whose checkpoints stay.
    The last evaluation is not reported, as the training is over then. Warnings are reported at the end, because every
    report counts as an evaluation in Tune.
    """

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self._report = report
        self._scores: dict[int, float] = {}
        self._total = 0
        self.warnings: list[str] = []

    def progress(self, step: Step, event: Progress) -> None:
        if step.stage == FINETUNE:
            self._total = event.total

    def metrics(self, step: Step, event: Metrics) -> None:
        if step.stage != FINETUNE or "dev_bleu" not in event.values or event.step in self._scores:
            return
        self._scores[event.step] = event.values["dev_bleu"]
        if 0 < event.step < self._total:
            self._report({EVALUATION: len(self._scores) - 1, BLEU: max(self._scores.values())})

    def warned(self, step: Step, event: Warned) -> None:
        self.warnings.append(f"{step.name}: {event.line}")
