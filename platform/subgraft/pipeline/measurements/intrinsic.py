"""Intrinsic quality of new embeddings: tokens of both vocabularies are held out, and initialised again.

`compute.intrinsic` measures it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.config.evaluation import IntrinsicSettings
from subgraft.embeddings.methods.registry import method_spec
from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.document import FORMS, Block, Figure, Paragraph, Section
from subgraft.evaluation.reporting.numbers import count, fixed, percent
from subgraft.evaluation.reporting.plots import system_looks
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import table, text
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Planned, Sources, Subject
from subgraft.pipeline.stages.models import MethodStage
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context

QUALITY = "intrinsic.json"


class IntrinsicStage(MethodStage):
    """The quality of an initialiser on tokens whose rows are known; the sample has a seed of its own."""

    stage_name: ClassVar[str] = "intrinsic"
    revision: ClassVar[int] = 2

    sample: IntrinsicSettings

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.intrinsic import run

        return run(self, inputs, out)


def _steps(subject: Subject) -> dict[str, Planned]:
    """With the inputs of the system's transfer. Rows that a step learns are only those of new tokens."""
    sample, transfer, initialiser = subject.experiment.intrinsic, subject.transfer, subject.system.initialiser
    if sample is None or transfer is None or initialiser is None or method_spec(initialiser).learning:
        return {}
    method: dict[str, Any] = {name: getattr(transfer.stage, name) for name in MethodStage.model_fields}
    name = transfer.name.replace("transfer", "intrinsic quality of", 1)
    return {"intrinsic": Planned(IntrinsicStage(**method, sample=sample), name, transfer.inputs, transfer.labels)}


@dataclass(frozen=True)
class IntrinsicQuality:
    """How close the input embeddings made for one side's held-out tokens are to the true ones.

    Attributes:
        tokens: Number of held-out tokens.
        cosine: Mean cosine of the initialised row and the true one.
        median_cosine: Median of the same.
        reciprocal_rank: Mean of 1 / rank of the true row among all upstream rows, by cosine with the initialised one.
        hits_at_1: Share of true rows of rank 1.
        hits_at_10: Share of true rows of rank 10 or better.
        fallbacks: Number of held-out tokens that were initialised by a fallback, by its name.
    """

    tokens: int
    cosine: float
    median_cosine: float
    reciprocal_rank: float
    hits_at_1: float
    hits_at_10: float
    fallbacks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Intrinsic:
    """The quality of a system's initialiser, by side."""

    sides: Mapping[str, IntrinsicQuality]


def _read(sources: Sources) -> Intrinsic | None:
    if "intrinsic" not in sources.steps:
        return None
    qualities = json.loads((sources.steps["intrinsic"] / QUALITY).read_text())
    return Intrinsic({side: IntrinsicQuality(**quality) for side, quality in qualities.items()})


def mean_quality(by_seed: Sequence[Intrinsic]) -> dict[str, IntrinsicQuality]:
    """The means over seeds, by side; without a side that some seed lacks."""
    names = ("cosine", "median_cosine", "reciprocal_rank", "hits_at_1", "hits_at_10")
    means = dict[str, IntrinsicQuality]()
    for side in dict.fromkeys(side for measured in by_seed for side in measured.sides):
        qualities = [measured.sides[side] for measured in by_seed if side in measured.sides]
        if len(qualities) == len(by_seed):
            values: dict[str, Any] = {name: fmean(getattr(each, name) for each in qualities) for name in names}
            means[side] = replace(qualities[0], **values)
    return means


def _section(data: ReportData) -> list[Section]:
    """How well each initialiser reproduces known embedding rows."""
    means = {name: mean_quality(by_seed) for name, by_seed in data.measured(Intrinsic).items()}
    sides = dict.fromkeys(side for quality in means.values() for side in quality)
    blocks: list[Block] = [Paragraph(text(_NOTE))]
    for side in sides:
        systems = {name: quality[side] for name, quality in means.items() if side in quality}
        caption = f"Rows made for held-out tokens, against the true ones; {side}; means over tokens and seeds."
        blocks += [Figure(f"intrinsic_{side}", _plot(data, systems), caption), _table(systems, side)]
    return [Section("Intrinsic quality", tuple(blocks))] if sides else []


_NOTE = (
    "A sample of word-like tokens that both vocabularies have is taken out of the upstream vocabulary, all at once. "
    "Each system's initialiser makes their input rows as if they were unseen. This is measured before finetuning: a "
    "row that is far from the true one may still be learnt. Vocabularies of other sizes have other samples."
)


def _table(systems: Mapping[str, IntrinsicQuality], side: str) -> Block:
    headings = ["system", "held-out\ntokens", "cosine\nmean", "cosine\nmedian", "mean reciprocal\nrank"]
    headings += ["hits\nat 1", "hits\nat 10"]
    note = "Rank: of the true row among all upstream rows, by their cosine with the row that was made."
    body = [
        [
            name,
            count(quality.tokens),
            fixed(quality.cosine, 3),
            fixed(quality.median_cosine, 3),
            fixed(quality.reciprocal_rank, 3),
            percent(quality.hits_at_1),
            percent(quality.hits_at_10),
        ]
        for name, quality in systems.items()
    ]
    return table(headings, body, f"Held-out tokens of the {side}", note)


@drawing.for_narrow_screens
def _plot(data: ReportData, systems: Mapping[str, IntrinsicQuality]) -> bytes:
    """Bars by system: mean cosine, mean reciprocal rank, and how often the true row is among the nearest ten."""
    looks, names = system_looks(data), list(systems)
    colours = [looks[name].colour for name in names]
    panels: list[tuple[str, Callable[[IntrinsicQuality], float]]] = [
        ("Mean cosine", lambda quality: quality.cosine),
        ("Mean reciprocal rank", lambda quality: quality.reciprocal_rank),
        ("True row among the nearest 10", lambda quality: quality.hits_at_10),
    ]
    with drawing.new_figure(10, 1.1 + 0.34 * len(systems)) as figure:
        axes = drawing.side_by_side(figure, len(panels), sharey=True)
        for panel, (title, value) in zip(axes, panels, strict=True):
            values = [value(quality) for quality in systems.values()]
            drawing.bars(panel, names, values, [fixed(number, 3) for number in values], colours)
            low, high = min(0.0, *values), max(0.0, *values)
            panel.set(title=title, xlim=(low - (0.22 * (high - low) if low else 0), high + 0.16 * (high - low) or 1))
            panel.locator_params(axis="x", nbins=4)
        return drawing.png(figure)


INTRINSIC = MeasurementSpec(
    stage=IntrinsicStage,
    parts=("intrinsic",),
    steps=_steps,
    read=_read,
    after_learning=dict.fromkeys(FORMS, _section),
)
