"""A fit from its files to its model: measure, plan, run the experiment, summarise."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.base.errors import ArgumentError
from subgraft.base.files import file_digest, require_file
from subgraft.base.security.terminal_escaping import printable
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.settings_base import MAX_LOST_LINES
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS, TaskName
from subgraft.evaluation.reporting.model_use import use_of
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import BYTES_PER_WEIGHT, MAX_WEIGHTS, VOCADT, Choice, choose
from subgraft.experiments.fit.configuration import OLD, OWN, Configuration, Machine, task_of
from subgraft.experiments.fit.duration import Costs, ExpectedTime, expected, measure_costs
from subgraft.experiments.fit.folder import MODEL, REPORT, Folder
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.fit.priors import recommendation
from subgraft.experiments.fit.split import Split, drop_shared_pairs, read_documents, read_text, split
from subgraft.experiments.fit.tokenization_report import TextMeasurement, measure
from subgraft.experiments.session import Session
from subgraft.experiments.steps.inputs import checkpoint_digest
from subgraft.orchestration.execution.plan import Plan
from subgraft.orchestration.store.step import made_by
from subgraft.pipeline.stages.models import CheckpointStage
from subgraft.training.stage import TrainedStage

if TYPE_CHECKING:
    from subgraft.base.terminal import Terminal
    from subgraft.orchestration.store.events import Observer


@dataclass(frozen=True)
class FitRequest:
    """The user's request.

    Attributes:
        model: The model to fit.
        files: Two files of pairs for each direction, or one of labelled examples.
        languages: The languages of the task; None for those of the model.
        out: The output folder.
        quick: Whether to use one seed and fewer updates.
        text: Files of additional text in the target language.
        directions: All directions, if there are several; the first is that of `languages`.
        max_lost_lines: The share of lines that the new vocabulary may change and the model's gives back.
        columns: Of labelled examples, by role, where they have not their usual names.
    """

    model: BaseModelFacts
    files: tuple[Path, ...]
    languages: Languages | None
    out: Path
    quick: bool
    text: tuple[Path, ...] = ()
    directions: tuple[Languages, ...] = ()
    max_lost_lines: float = MAX_LOST_LINES
    columns: Mapping[str, str] = field(default_factory=dict)


class FitSession(ABC):
    """One fit; its folder is new, or of an earlier run that is continued.

    Raises UserError, before anything is written, for unusable files and for a folder with other contents.
    """

    # The names of a segment, of the outputs for the test set, and of the files in a folder's identity.
    segment = "a target sentence"
    outputs = "translations"
    files = "pairs"
    outcome: ClassVar[type[Outcome]] = Outcome
    verb = ""  # what the command that uses the model does, if not what it is called

    def __init__(self, request: FitRequest, console: Terminal) -> None:
        self._request = request
        self._console = console
        self._folder = Folder(request.out)
        self._costs: Costs | None = None
        self._started = time.monotonic()
        self._languages = self._task_languages(request)
        self._folder.require(self._identity)

    def plan(self) -> None:
        """Show the data and the plan."""
        with self._folder.undone_if_refused():
            self._prepare_and_plan()
        self._lines([("configuration", str(self._folder.configuration))])

    def run(self, observers: Sequence[Observer] = ()) -> Outcome:
        """Show the data and the plan, and execute it."""
        with self._folder.undone_if_refused():
            session, planned = self._prepare_and_plan()
            if planned.to_run:
                self._heading("Training")
            session.run(self._console, register=False, observers=observers)
        return self._finish(session)

    @abstractmethod
    def _task_languages(self, request: FitRequest) -> Languages:
        """The languages of the task. Raises UserError where they are needed and not known."""

    @abstractmethod
    def _prepare(self) -> Session:
        """Read, measure and split the files, and claim the folder: the experiment, whose configuration is written."""

    @property
    def _task(self) -> TaskName:
        return task_of(self._languages)

    def _prepare_and_plan(self) -> tuple[Session, Plan]:
        session = self._prepare()
        return session, self._show_plan(session)

    @cached_property
    def _identity(self) -> dict[str, object]:
        """The identity of a fit."""
        request = self._request
        return {
            "model": checkpoint_digest(request.model.directory),
            self.files: [file_digest(require_file(path)) for path in request.files],
            "text": [file_digest(require_file(path)) for path in request.text],
            "languages": " ".join(pair.name for pair in request.directions or (self._languages,)),
            "quick": request.quick,
            **({"columns": dict(request.columns)} if request.columns else {}),
        }

    @property
    def _cleaning(self) -> Cleaning:
        """The experiment's cleaning rules, so that dropped text is not measured."""
        return Cleaning(**TASKS[self._task].defaults.get("cleaning", {}))

    def _show_gap(self, measured: TextMeasurement) -> None:
        """Raises ArgumentError if the new vocabulary loses more of the text than the request allows."""
        self._heading("Gap")
        for line in measured.lines(self.segment):
            self._say(line)
        if loss := measured.lost.warning(self._request.max_lost_lines, "max_lost_lines", ArgumentError):
            self._say(printable(f"warning: {loss}"))

    @property
    def _name(self) -> str:
        """The experiment's name."""
        name = "".join(letter if letter.isalnum() else "-" for letter in self._request.out.absolute().name).strip("-")
        return name.encode("ascii", "ignore").decode() or "fit"

    def _open_session(self, configuration: str) -> Session:
        """The experiment of a configuration in YAML, which is written."""
        self._folder.write_configuration(configuration)
        session = Session(load(self._folder.configuration, Experiment), self._folder.out)
        for line in session.unknown_tokens():
            self._say(line)
        self._heading("Plan")
        return session

    def _show_choice(self, choice: Choice, measured: TextMeasurement) -> None:
        self._say(
            f"{OLD}: the model's own vocabulary, finetuned at {choice.old_rate:g}. {OWN}: {measured.size:,} subwords "
            f"of your text, new embeddings initialised with {choice.initialiser}, at {choice.learning_rate:g} "
            f"(embeddings {choice.embedding_learning_rate:g}). Each for {choice.steps:,} updates of "
            f"{choice.batch_size:,} characters, under {len(choice.seeds)} seed{'s' * (len(choice.seeds) > 1)}."
        )

    def _expected(self, session: Session, planned: Plan, *, finetuned: float = 1.0) -> ExpectedTime | None:
        """The time that a plan takes on this machine, with a share of its finetunings' updates; None if not known."""
        runtime, cores = session.experiment.runtime, machine().cores
        if self._costs is None:
            model, folder = self._request.model, self._folder.out
            self._costs = measure_costs(planned, session.store, runtime, cores, model.parameters, folder)
        return self._costs and expected(planned, self._costs, session.store, runtime, cores, finetuned=finetuned)

    def _show_plan(self, session: Session) -> Plan:
        planned = session.plan()
        _require_loadable(planned)
        trainings = len(made_by(TrainedStage, planned.to_run))
        expected_time = self._expected(session, planned) if trainings else None
        completed = len(planned.entries) - len(planned.to_run)
        self._say(f"{len(planned.entries)} steps, {completed} of them done" if planned.to_run else "all of it is done")
        if trainings:
            unknown = [f"{trainings} trainings for a time that is not known, and then {self.outputs} of the test set"]
            quick, cores = self._request.quick, machine().cores
            lines = (
                expected_time.describe(trainings, cores, quick=quick, then=self.outputs) if expected_time else unknown
            )
            for line in lines:
                self._say(line)
        return planned

    def _finish(self, session: Session) -> Outcome:
        """Show the table and the advice, and copy the advised model and the report to the folder."""
        outcome, folder = self.outcome.read(session.pipeline, session.store), self._folder
        if outcome.advised is not None:
            folder.copy(session.store.path(outcome.advised.steps.finetune), MODEL)
        folder.copy(session.report_directory(), REPORT)
        self._heading("Result")
        self._console.print(outcome.table())
        self._say(str(outcome.answer))
        uses = [
            use_of(str(folder.model), pair.name, predicts=self._task in LABELLED_TASKS, file=True)
            for pair in self._request.directions or (self._languages,)
        ]
        model = "none" if outcome.advised is None else f"{folder.model} ({outcome.advised})"
        self._lines(
            [
                ("model", model),
                ("report", str(folder.report / "report.html")),
                ("configuration", str(folder.configuration)),
                *((self.verb or use.verb, use.command) for use in uses if outcome.advised),
            ]
        )
        return outcome

    def _lines(self, rows: Sequence[tuple[str, str]]) -> None:
        self._say("")
        for label, line in rows:
            self._say(f"{label:14} {line}")

    def _heading(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold")

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=not self._console.is_terminal)


class Fit(FitSession):
    """A fit of pairs of texts, of one direction or several."""

    verb = "translate"

    def _task_languages(self, request: FitRequest) -> Languages:
        languages = request.model.languages(request.languages)
        self._new_languages = request.model.new_languages(request.directions or (languages,))
        return languages

    def _prepare(self) -> Session:
        request, texts = self._request, self._read()
        train = [pair for text in texts.values() for pair in text.train]
        additional_text = read_text(request.text, next(iter(texts.values())), self._cleaning)
        if additional_text.lines:
            self._say(additional_text.summary)
        measured = measure(request.model, train, additional_text.lines)
        self._show_gap(measured)
        excluded = self._excluded(measured)
        for language in self._new_languages:
            self._say(
                f"the model has no code for '{language}': it gets one, whose embedding starts as the mean of the others"
            )
        configuration = Configuration(
            name=self._name,
            model=request.model,
            languages=self._languages,
            vocabulary_size=measured.size,
            choice=choose(
                len(train),
                request.model.parameters,
                tokens_ratio=measured.tokens_ratio,
                excluded=excluded,
                quick=request.quick,
            ),
            machine=machine(),
            quick=request.quick,
            text=request.text,
            max_lost_lines=request.max_lost_lines,
            new_languages=self._new_languages,
            directions=request.directions,
        )
        self._folder.claim(self._identity)
        self._folder.write_lines(
            {name: lines for pair, text in texts.items() for name, lines in self._files_of(pair, text).items()}
        )
        session = self._open_session(configuration.yaml())
        self._show_choice(configuration.choice, measured)
        advised = recommendation(len(train), measured.tokens_ratio, excluded=excluded)
        self._say(f"On tasks with a similar gap: {advised}")
        return session

    def _excluded(self, measured: TextMeasurement) -> set[str]:
        """Initialisers that this text or task does not allow: VocADT learns from one direction, and takes memory."""
        if self._request.directions:
            return {VOCADT}
        if measured.mixing_weights <= MAX_WEIGHTS:
            return set()
        self._say(
            f"{VOCADT} would need {BYTES_PER_WEIGHT * measured.mixing_weights / 2**30:.0f} GiB, a weight for each new "
            "token and each old one of the text; it is left out"
        )
        return {VOCADT}

    def _files_of(self, pair: Languages, text: Split) -> dict[str, Sequence[str]]:
        """The lines of each file of a direction: SPLIT.LANGUAGE, of several directions in folders of their names."""
        folder = f"{pair.name}/" if self._request.directions else ""
        sides = (pair.source, pair.target) if pair.source != pair.target else ("source", "target")
        return {
            f"{folder}{name}.{side}": lines
            for name, pairs in text.parts.items()
            for side, lines in zip(sides, zip(*pairs, strict=True), strict=True)
        }

    def _read(self) -> dict[Languages, Split]:
        """The text of each direction."""
        self._heading("Text")
        directions, files = self._request.directions or (self._languages,), self._request.files
        texts = [read_documents(*files[index : index + 2]) for index in range(0, len(files), 2)]
        splits = [split(documents, self._cleaning) for documents in texts]
        splits = drop_shared_pairs(splits, self._cleaning) if len(splits) > 1 else splits
        for pair, documents, text in zip(directions, texts, splits, strict=True):
            empty = f"; {documents.incomplete:,} lines had one side alone" if documents.incomplete else ""
            self._say(
                f"{len(documents.pairs):,} pairs, {pair.source} to {pair.target}: "
                f"{len(text.train):,} to train on, {len(text.dev):,} dev, {len(text.test):,} test{empty}"
            )
            self._say(text.summary)
            for warning in self._request.model.warnings_about(documents.pairs, pair):
                self._say(warning)
        return dict(zip(directions, splits, strict=True))


def _require_loadable(planned: Plan) -> None:
    """Load the model, if that is still to be done, so that damaged weights are not found by the first step."""
    from subgraft.pipeline.compute.models import load_checkpoint

    for step in made_by(CheckpointStage, planned.to_run):
        load_checkpoint(step.stage)


def machine() -> Machine:
    """This machine."""
    import torch

    return Machine(os.cpu_count() or 1, torch.cuda.is_available())
