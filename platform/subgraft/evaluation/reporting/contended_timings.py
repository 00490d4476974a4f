"""Speeds that were measured while others wanted the machine: which, and what is said of them."""

from __future__ import annotations

from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.numbers import fixed
from subgraft.evaluation.reporting.table import Span


def is_busy(result: SystemResult) -> bool:
    """Whether more wanted to run than the machine has cores; not where no record tells, as of earlier versions."""
    return result.load is not None and result.cores is not None and result.load > result.cores


def busy_mark(name: str, data: ReportData) -> tuple[Span, ...]:
    """What stands below a system's speed where some seed's was measured on a busy machine."""
    loads = [result.load or 0.0 for result in data.results(name) if is_busy(result)]
    return (Span("\n"), Span(f"busy: load {fixed(max(loads), 0)}", "warning")) if loads else ()


def busy_notes(data: ReportData) -> list[str]:
    """What is to be said of such speeds, if there are any."""
    busy = [result for result in data.systems if is_busy(result)]
    if not busy:
        return []
    cores = ", ".join(sorted({str(result.cores) for result in busy}))
    return [
        f"Busy: {len(busy)} of {len(data.systems)} speeds were measured while more wanted to run (load average) than"
        f" the machine has cores ({cores}). They are lower than the model's, and differ by what else ran."
    ]
