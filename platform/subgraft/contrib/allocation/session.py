"""An allocation as steps, and in one store: planned, run, recorded, and reported to the user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.contrib.allocation.compute import table_folder
from subgraft.contrib.allocation.settings import Allocation
from subgraft.contrib.allocation.stages import (
    AllocationReportStage,
    AllocationStage,
    CapacityStage,
    CurveStage,
    JointVocabularyStage,
)
from subgraft.data.sources.registry import resolve
from subgraft.data.text.languages import code_token
from subgraft.evaluation.reporting.table import MainTable
from subgraft.experiments.corpus_needs import CorpusNeeds
from subgraft.experiments.session import close_at_end
from subgraft.experiments.steps.vocabularies import vocabulary_digest
from subgraft.orchestration.execution.plan import Plan, make_plan
from subgraft.orchestration.execution.progress import display_for
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.pipeline.stages.corpora import CorpusStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import LANGUAGE_CODE

if TYPE_CHECKING:
    from rich.table import Table

    from subgraft.base.terminal import Terminal

ALLOCATED, JOINT = "allocated", "joint"


class AllocationPipeline:
    """Builds the steps. base: the configuration's folder, to which paths are relative."""

    def __init__(self, settings: Allocation, base: Path) -> None:
        self.settings = settings
        self._base = base.absolute()

    @cached_property
    def corpora(self) -> dict[str, Step[CorpusStage]]:
        """The corpus of each language. Raises UserError for a language without text."""
        invalid = [code for code in self.settings.sources if not LANGUAGE_CODE.fullmatch(code_token(code))]
        if invalid and self.settings.language_codes:
            hint = "Name languages as in en, swh or zho_Hans, or set language_codes: false."
            raise UserError(f"'{invalid[0]}' is not a name for a language code", where="texts", hint=hint)
        steps = {}
        for language, source in self.settings.sources.items():
            single_language = Languages(source=language, target=language)
            try:
                resolved = resolve(source, single_language, self._base)
                CorpusNeeds(("train",), pairs=False, one_text=True).check(resolved, language)
            except UserError as error:
                raise UserError(error.what, where=f"texts: {language}: {error.where}", hint=error.hint) from error
            stage = CorpusStage(
                identity=dict(resolved.identity()),
                languages=single_language,
                cleaning=self.settings.cleaning,
                source=source,
                base=self._base,
            )
            steps[language] = Step(stage, f"corpus {language}")
        return steps

    @cached_property
    def curves(self) -> dict[str, Step[CurveStage]]:
        curves = self.settings.curves
        stage = CurveStage(kind=curves.kind, sizes=curves.grid, exact=curves.exact)
        return {
            language: Step(stage, f"curve {language}", {"corpus": corpus}, {"language": language})
            for language, corpus in self.corpora.items()
        }

    @cached_property
    def allocations(self) -> dict[int, Step[AllocationStage]]:
        settings = self.settings
        return {
            total: Step(
                AllocationStage(
                    total=total,
                    language_exponent=settings.language_exponent,
                    capacity_exponent=settings.capacity_exponent,
                    byte_fallback=settings.byte_fallback,
                    mask=settings.mask,
                    codes=self._codes,
                ),
                f"allocation {total}",
                self.curves,
            )
            for total in settings.totals
        }

    @cached_property
    def report(self) -> Step[AllocationReportStage]:
        """The last step, which depends on all others."""
        capacities = {
            total: {name: self._capacity(name, step) for name, step in self.vocabularies(total).items()}
            for total in self.settings.totals
        }
        inputs: dict[str, Step] = {f"curve/{language}": step for language, step in self.curves.items()}
        inputs |= {f"allocation/{total}": step for total, step in self.allocations.items()}
        inputs |= {f"capacity/{name}": step for by_name in capacities.values() for name, step in by_name.items()}
        stage = AllocationReportStage(
            name=self.settings.name,
            languages=tuple(self.curves),
            totals=self.settings.totals,
            compared={str(total): tuple(by_name) for total, by_name in capacities.items()},
        )
        return Step(stage, "report", inputs)

    @property
    def _codes(self) -> tuple[str, ...]:
        languages = sorted(self.settings.sources) if self.settings.language_codes else ()
        return tuple(dict.fromkeys(map(code_token, languages)))

    def vocabularies(self, total: int) -> dict[str, Step | str]:
        """The compared vocabularies of a total, by name: steps that make one, or paths."""
        vocabularies: dict[str, Step | str] = {f"{ALLOCATED}/{total}": self.allocations[total]}
        if self.settings.baselines.joint:
            vocabularies[f"{JOINT}/{total}"] = self._joint(total)
        return vocabularies | dict(self.settings.baselines.vocabularies)

    def _joint(self, total: int) -> Step:
        settings = self.settings
        stage = JointVocabularyStage(
            kind=settings.curves.kind,
            size=total,
            lines=settings.baselines.joint_lines,
            language_exponent=settings.language_exponent,
            byte_fallback=settings.byte_fallback,
            mask=settings.mask,
            codes=self._codes,
        )
        return Step(stage, f"joint vocabulary {total}", self.corpora)

    def _capacity(self, name: str, vocabulary: Step | str) -> Step:
        title = f"capacity of {name.replace('/', ' ')}"
        if isinstance(vocabulary, Step):
            return Step(CapacityStage(), title, {"vocabulary": vocabulary, **self.corpora})
        path = self._base / vocabulary
        if not path.is_dir():
            hint = "Give the directory of a vocabulary or a model."
            raise UserError("no such directory", where=f"baselines.vocabularies.{name}: {path}", hint=hint)
        stage = CapacityStage(digest=vocabulary_digest(Tokenizer.load(path)), place=path)
        return Step(stage, title, self.corpora)


@dataclass(frozen=True)
class FinishedAllocation:
    """tables: of each total.  report: its page.  vocabularies: directories by total."""

    tables: tuple[Table, ...]
    report: Path
    vocabularies: dict[int, Path]


class AllocationSession:
    """An allocation in the default store (SUBGRAFT_HOME, or .subgraft)."""

    def __init__(self, settings: Allocation, base: Path) -> None:
        self.settings = settings
        self.pipeline = AllocationPipeline(settings, base)
        self._home = default_home().absolute()

    def plan(self) -> Plan:
        """The steps of a run, with their current states."""
        return make_plan(Store(self._home), [self.pipeline.report])

    def run(self, console: Terminal, address: str | None = None) -> FinishedAllocation:
        """Run the missing steps and record them."""
        report = self.pipeline.report  # planning finds mistakes before anything is written
        display = display_for(console)
        store, runtime = Store(self._home, display.say), self.settings.runtime
        params = self.settings.model_dump(mode="json")
        tracker = Tracker(store, self.settings.name, display.say, uri=runtime.tracking_uri, params=params)
        with close_at_end(display, tracker):
            run(store, [report], runtime, [display, tracker], address=address)
        directory = store.path(report)
        tables = [MainTable.read(table_folder(directory, total)).rich() for total in self.settings.totals]
        vocabularies = {total: store.path(step) for total, step in self.pipeline.allocations.items()}
        return FinishedAllocation(tuple(tables), directory / "report.html", vocabularies)
