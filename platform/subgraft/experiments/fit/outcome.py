"""What a finished fit shows: one table, the advice, and the model that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from subgraft.base.errors import OperationalError
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.fit.advice import Advice, Contender, advise
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.numbers import count, fixed, interval
from subgraft.evaluation.reporting.remarks import remarks
from subgraft.evaluation.reporting.results import MAIN_METRICS
from subgraft.evaluation.reporting.unknown_token_analysis import unspelled_caption
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.pipeline.stages.report import collect
from subgraft.orchestration.store.store import Store

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Outcome:
    """advised: of the system to take, the seed that is the best on dev."""

    data: ReportData
    advice: Advice
    advised: Finetuned

    @classmethod
    def read(cls, pipeline: Pipeline, store: Store) -> Outcome:
        """From a store that has the experiment's report and all that led to it."""
        report = pipeline.report
        data = collect(report.recipe, {role: store.path(step) for role, step in report.inputs.items()})
        finetuned = [Finetuned.read(steps, store) for steps in pipeline.systems]
        assert data.baseline is not None
        candidate = _best_on_dev([one for one in finetuned if one.steps.system.name != data.baseline])
        named = {system.name: system for system in summarise(data)}
        old, own = (Contender(name, named[name].tokens_per_sentence) for name in (data.baseline, candidate))
        compared = {name: named[candidate].metrics[name].comparison for name in MAIN_METRICS}
        advice = advise(old, own, {name: each for name, each in compared.items() if each is not None})
        return cls(data, advice, _model([one for one in finetuned if one.steps.system.name == advice.system]))

    def table(self) -> Table:
        """Quality with intervals, what a sentence takes, and in the caption what seeds and spelling say of it."""
        from rich.box import SIMPLE_HEAD

        from subgraft.base.terminal import Sheet

        sentences, seeds = count(len(self.data.references)), len(self.data.seeds)
        over = f"means over {seeds} seeds" if seeds > 1 else "one seed"
        caption = "\n".join(
            [
                f"{sentences} test sentences, {over}, 95 % intervals; bits per "
                f"character of dev; tokens of a target sentence{unspelled_caption(self.data)}",
                *remarks(self.data),
            ]
        )
        shown = Sheet(caption=caption, caption_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        # In two lines, for a terminal of eighty columns.
        for heading in ("", *MAIN_METRICS, "bits/\nchar", "tokens/\nsent.", "s/\nsent."):
            shown.add_column(heading, justify="right" if shown.columns else "left", no_wrap=True)
        for system in summarise(self.data):
            shown.add_row(*_cells(system))
        return shown


def _cells(system: SystemSummary) -> list[str]:
    scores = (system.metrics[name] for name in MAIN_METRICS)
    return [
        system.name,
        *(f"{fixed(score.mean)} {interval(score.interval)}" for score in scores),
        fixed(system.bits.kept, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(1 / system.sentences_per_second, 3),
    ]


def _best_on_dev(found: list[Finetuned]) -> str:
    """The system with the best mean over its seeds; the test set chooses nothing."""
    worth: dict[str, list[float]] = {}
    for one in found:
        worth.setdefault(one.steps.system.name, []).append(one.kept.worth)
    return max(worth, key=lambda name: fmean(worth[name]))


def _model(found: list[Finetuned]) -> Finetuned:
    """Of a system's seeds the best on dev that any training went into; of none, the first."""
    if not found:
        raise OperationalError("the advised system was not finetuned")
    return Selection.of(found).chosen or found[0]
