"""The outcome of a fit: a table, the answer, and the advised model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from subgraft.evaluation.reporting.answer import Answer
from subgraft.evaluation.reporting.findings import caption_remarks, compared_seeds
from subgraft.evaluation.reporting.numbers import count, fixed, interval
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import MAIN_METRICS
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.compute.report import answer_of, collect, form_of

if TYPE_CHECKING:
    from subgraft.base.terminal import Table


@dataclass(frozen=True)
class Outcome:
    """The report's data, the answer that it begins with, and the advised system's best seed on dev, if there is one."""

    data: ReportData
    answer: Answer
    advised: Finetuned | None

    @classmethod
    def read(cls, pipeline: Pipeline, store: Store) -> Self:
        """Read it from a store with the experiment's report and all its inputs."""
        report = pipeline.report
        data = collect(report.stage, {role: store.path(step) for role, step in report.inputs.items()})
        answer = answer_of(data, form_of(report.stage.objective))
        models = [Finetuned.read(steps, store) for steps in pipeline.systems if steps.system.name == answer.system]
        return cls(data, answer, Selection.of(models).chosen)

    def table(self) -> Table:
        """Quality with intervals and cost per sentence; the caption has remarks on seeds and unknown characters."""
        from rich.box import SIMPLE_HEAD

        from subgraft.base.terminal import Table

        sentences, seeds = count(len(self.data.references)), len(self.data.seeds)
        seeds_note = f"means over {seeds} seeds" if seeds > 1 else "one seed"
        caption = f"{sentences} test sentences, {seeds_note}, 95 % intervals; bits per character of dev; "
        caption += f"tokens of a target sentence{caption_remarks(self.data, compared_seeds(self.data))}"
        table = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        # In two lines, for a terminal of eighty columns.
        for heading in ("", *MAIN_METRICS, "bits/\nchar", "tokens/\nsent.", "s/\nsent."):
            table.add_column(heading, justify="right" if table.columns else "left", no_wrap=True)
        for system in summarise(self.data):
            table.add_row(*_cells(system))
        return table

    def rows(self) -> list[dict[str, object]]:
        """The comparison as records: one for each system, means over seeds."""
        return [
            {
                "system": system.name,
                **{name: score.mean for name, score in system.metrics.items()},
                "bits per character": system.bits.selected,
                "tokens per sentence": system.tokens_per_sentence,
                "sentences per second": system.sentences_per_second,
            }
            for system in summarise(self.data)
        ]


def _cells(system: SystemSummary) -> list[str]:
    scores = (system.metrics[name] for name in MAIN_METRICS)
    return [
        system.name,
        *(f"{fixed(score.mean)} {interval(score.interval)}" for score in scores),
        fixed(system.bits.selected, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(1 / system.sentences_per_second, 3),
    ]
