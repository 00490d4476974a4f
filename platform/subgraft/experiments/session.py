"""One experiment in one store: planned, run, recorded, registered, and reported to the user."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.redaction import redact
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.evaluation.reporting.model_use import use_of
from subgraft.evaluation.reporting.table import MainTable
from subgraft.experiments import plan_warnings
from subgraft.experiments.manifest import system_runs
from subgraft.experiments.model_card import SelectedModel
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.preflight import require_libraries
from subgraft.experiments.steps.decoding_engine import left_to_transformers
from subgraft.experiments.steps.inputs import describe_text
from subgraft.orchestration.execution.plan import Plan, make_plan
from subgraft.orchestration.execution.progress import Display, display_for
from subgraft.orchestration.execution.resources import gpu_shortage
from subgraft.orchestration.execution.runner import require_devices, run
from subgraft.orchestration.store.home import default_home, describe_empty_store
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.model_registry import CANDIDATE, CHAMPION
from subgraft.orchestration.tracking.tracker import Tracker

if TYPE_CHECKING:
    from rich.table import Table

    from subgraft.base.terminal import Terminal
    from subgraft.orchestration.store.events import Observer


@dataclass(frozen=True)
class Finished:
    """The result of a run: the comparison, its answer, the report's path, and further commands."""

    table: Table
    answer: str
    report: Path
    commands: tuple[tuple[str, str], ...]


class Session:
    """An experiment in the default store (SUBGRAFT_HOME, or .subgraft). base: its configuration's folder."""

    def __init__(self, experiment: Experiment, base: Path) -> None:
        self.experiment = experiment
        self.pipeline = Pipeline(experiment, base)
        self._home = default_home().absolute()
        self._base = base.absolute()

    @property
    def store(self) -> Store:
        """The default store."""
        return Store(self._home)

    def plan(self) -> Plan:
        """The steps of a run, with their current states."""
        return make_plan(self.store, [self.pipeline.report])

    def estimates(self, plan: Plan) -> Table | None:
        """The estimated needs of a plan's trainings; None if there are none."""
        if not plan.to_run:
            return None
        from subgraft.orchestration.estimates.estimate import estimates, table

        rows = estimates(self.store, plan, self.experiment.runtime)
        return table(rows, self.experiment.runtime) if rows else None

    def unknown_tokens(self) -> list[str]:
        """The task's characters that the upstream vocabularies lack, a line for each known vocabulary."""
        pretrained, corpus = self.pipeline.models.pretrained, self.pipeline.inputs.downstream_corpus
        return plan_warnings.unknown_tokens(self.store, pretrained, corpus)

    def lost_lines(self) -> list[str]:
        """The task's text that new vocabularies lose, a line for each that is in the store."""
        steps = in_order([self.pipeline.report])
        return plan_warnings.lost_lines(self.store, self.pipeline.inputs.downstream_corpus, steps)

    def oversized_vocabularies(self, plan: Plan) -> list[str]:
        """A line for each planned vocabulary that is known to be larger than its text supports."""
        return plan_warnings.oversized_vocabularies(self.store, plan.to_run)

    def monolingual_text(self) -> list[str]:
        """The amount of monolingual text, a line for each side."""
        return describe_text(self.store, self.pipeline.inputs.text) if self.pipeline.inputs.text else []

    def warnings(self) -> list[str]:
        """Settings that are valid but probably unintended, a line for each."""
        marks = plan_warnings.characters_for_marks(self.experiment, self._base)
        fast = plan_warnings.fast_tied_embeddings(self.experiment, self.pipeline.inputs)
        return [*plan_warnings.frozen_random_rows(self.experiment), *marks, *fast]

    def engines(self) -> list[str]:
        """A line if transformers runs evaluations although CTranslate2 is configured."""
        configured = self.experiment.evaluation.engine == "ctranslate2"
        return left_to_transformers(configured, in_order([self.pipeline.report]))

    def empty_store(self) -> list[str]:
        """A line if the store is empty, as in an unintended directory."""
        message = describe_empty_store(self._home, self._base)
        return [message] if message else []

    def missing_devices(self) -> list[str]:
        """Devices that the experiment needs and this machine lacks, a line for each."""
        message = gpu_shortage(self.experiment.runtime)
        return [f"{message}: a run here is refused; one on a cluster (--address) is not"] if message else []

    def report_directory(self) -> Path:
        """The path of the finished report. Raises UserError before there is one."""
        if self.store.find(self.pipeline.report) is None:
            raise UserError("this experiment has no report yet", hint="Run it first: subgraft run CONFIG.")
        return self.store.path(self.pipeline.report)

    def run(
        self,
        console: Terminal,
        address: str | None = None,
        *,
        register: bool = True,
        observers: Sequence[Observer] = (),
    ) -> Finished:
        """Run the missing steps and record them. register: the best model on dev too.

        If the store is read-only, the finished run is shown and not recorded. Raises OperationalError if such a store
        lacks steps.
        """
        require_libraries(self.experiment)
        report = self.pipeline.report  # planning finds mistakes before anything is written
        if self._home.is_dir() and not os.access(self._home, os.W_OK):
            return self._read_only_result(console)
        require_devices(self.plan(), self.store, self.experiment.runtime, address)
        display = display_for(console)
        for line in self.empty_store():
            display.say(f"[store]    {line}")
        for line in self.warnings():
            display.say(f"[warning]  {line}")
        store = Store(self._home, display.say)
        tracker = Tracker(
            store,
            self.experiment.name,
            display.say,
            uri=self.experiment.runtime.tracking_uri,
            params=self.experiment.model_dump(mode="json"),
            systems=system_runs(self.pipeline.systems),
            report=report,
        )
        with close_at_end(display, tracker):
            run(store, [report], self.experiment.runtime, [display, tracker, *observers], address=address)
            selection = Selection.of([Finetuned.read(steps, store) for steps in self.pipeline.systems])
            if selection.warning:
                display.say(f"[warning]  {selection.warning}")
            if selection.chosen and register:
                self._register(selection.chosen, store, tracker)
        return self._run_result(store, tracker, registered=register and selection.chosen is not None)

    def _register(self, best: Finetuned, store: Store, tracker: Tracker) -> None:
        steps = best.steps
        model = SelectedModel.of(self.model_name, self.pipeline, steps, best.weights, store)
        evaluation = steps.evaluate if store.find(steps.evaluate) else None
        aliases = (CANDIDATE, CHAMPION)
        tracker.register(
            steps.finetune, self.model_name, aliases, model.tags(), card=model.card(), evaluation=evaluation
        )

    @property
    def model_name(self) -> str:
        """Name of the registered model: the system and seed that finetuning made the best on dev."""
        languages = self.experiment.languages
        return f"{self.experiment.name}-{languages.source}-{languages.target}"

    def _read_only_result(self, console: Terminal) -> Finished:
        """The result of an earlier, complete run."""
        missing = len(self.plan().to_run)
        if missing:
            hint = "Set SUBGRAFT_HOME to a place that can be written to."
            raise OperationalError(
                f"cannot write there, and {missing} steps are to be run", where=str(self._home), hint=hint
            )
        console.print("the store is read-only: all results exist, and this run is not recorded")
        return self._finished(self.store, ())

    def _run_result(self, store: Store, tracker: Tracker, registered: bool) -> Finished:
        name, uri = self.model_name if registered else None, self.experiment.runtime.tracking_uri
        experiment = self.experiment
        commands = further_commands(
            name, experiment.languages, tracker.name, uri, predicts=experiment.task in LABELLED_TASKS
        )
        return self._finished(store, commands)

    def _finished(self, store: Store, commands: tuple[tuple[str, str], ...]) -> Finished:
        report = store.path(self.pipeline.report)
        table = MainTable.read(report)
        return Finished(table.rich(), table.answer, report / "report.html", commands)


@contextmanager
def close_at_end(display: Display, tracker: Tracker) -> Iterator[None]:
    """Close both at the end of the block, with the status with which the run ended."""
    status = "FAILED"
    try:
        yield
        status = "FINISHED"
    except (KeyboardInterrupt, SystemExit):  # Ray turns a SIGTERM, as of `ray job stop`, into the second
        status = "KILLED"
        raise
    finally:
        display.close()
        tracker.close(status)


def further_commands(
    model: str | None, languages: Languages, run: str, uri: str | None, *, predicts: bool = False
) -> tuple[tuple[str, str], ...]:
    """Commands for the user to continue with.

    Args:
        model: The name of the registered model, if there is one.
        uri: The tracking server if the configuration names one; a password in it is not shown.
        predicts: Whether the model predicts labels.
    """
    uri = uri and redact(uri)
    subgraft = f"MLFLOW_TRACKING_URI={shlex.quote(uri)} subgraft" if uri else "subgraft"
    pair = f"{languages.source}-{languages.target}"
    use = use_of(f"models:/{model}@champion", pair, predicts=predicts, subgraft=subgraft)
    return (
        *((use,) if model else ()),
        ("compare", f"{subgraft} compare {run}"),
        ("MLflow page", f"{subgraft} tracking" if uri is None or uri.startswith("sqlite:") else uri),
    )
