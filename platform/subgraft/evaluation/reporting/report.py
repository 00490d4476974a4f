"""Writing the report of a comparison: report.html, report.md and plots/*.png."""

from __future__ import annotations

from pathlib import Path

from subgraft.evaluation.reporting.additional_sections import (
    calibration,
    forgetting,
    intrinsic_quality,
    quality_and_speed,
    sweeps,
)
from subgraft.evaluation.reporting.background import do_it_again, look_further, setup, subword_gap, time_spent
from subgraft.evaluation.reporting.document import Document, Notice, Section, write_document
from subgraft.evaluation.reporting.examples import translations
from subgraft.evaluation.reporting.findings import GENERATED_NOTICE, in_short
from subgraft.evaluation.reporting.numbers import count
from subgraft.evaluation.reporting.rare_tokens import rare_tokens
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import learning, results


def write_report(data: ReportData, out: Path) -> None:
    """Write report.html (self-contained), report.md and its plots/*.png into the existing directory `out`.

    Raises:
        UserError: there are no results, or a system has not one output per reference.
    """
    write_document(build_document(data), out)


def build_document(data: ReportData) -> Document:
    """The whole report, in the order in which it is read."""
    notice = [Notice(GENERATED_NOTICE)] if data.generated else []
    sections = [
        Section("In short", (*notice, in_short(data))),
        results(data),
        *quality_and_speed(data),
        *sweeps(data),
        learning(data),
        *calibration(data),
        *forgetting(data),
        *intrinsic_quality(data),
        *rare_tokens(data),
        subword_gap(data),
        translations(data),
        setup(data),
        time_spent(data),
    ]
    if data.commands:
        sections.append(look_further(data))
    sections.append(do_it_again(data))
    return Document(data.title, _subtitle(data), tuple(sections))


def _subtitle(data: ReportData) -> str:
    seeds = len(data.seeds)
    return (
        f"{data.languages[0]} → {data.languages[1]} · {len(data.system_names)} systems · "
        f"{seeds} seed{'s' * (seeds > 1)} · {count(len(data.references))} test sentences"
    )
