"""The outcome of a fit of labelled examples."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Self

from subgraft.evaluation.reporting.understanding import labelled_table, metric_names, summarise_metric
from subgraft.experiments.fit.outcome import Outcome
from subgraft.experiments.model_selection import Finetuned
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.compute.report import collect_labelled

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class LabelOutcome(Outcome):
    """The report's data, the advice by the task's main metric, and the advised system's best seed on dev."""

    @classmethod
    def read(cls, pipeline: Pipeline, store: Store) -> Self:
        report = pipeline.report
        data = collect_labelled(report.stage, {role: store.path(step) for role, step in report.inputs.items()})
        main = metric_names(data)[0]
        by_system = summarise_metric(data, main)
        tokens = {name: fmean(result.tokens_per_sentence for result in data.results(name)) for name in by_system}
        finetuned = [Finetuned.read(steps, store) for steps in pipeline.systems]
        return cls._of(data, finetuned, tokens, lambda name: {main: by_system[name].comparison}, "an example")

    def table(self) -> Table:
        return labelled_table(self.data).rich()

    def rows(self) -> list[dict[str, object]]:
        data = self.data
        by_metric = {name: summarise_metric(data, name) for name in metric_names(data)}
        return [
            {
                "system": name,
                **{metric: systems[name].mean for metric, systems in by_metric.items()},
                "tokens per example": fmean(result.tokens_per_sentence for result in data.results(name)),
                "examples per second": fmean(result.sentences_per_second for result in data.results(name)),
            }
            for name in data.system_names
        ]
