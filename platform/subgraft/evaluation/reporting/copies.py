"""Notes of a report on outputs that are copies of their sources."""

from __future__ import annotations

from functools import lru_cache

from subgraft.evaluation.metrics.copying import Copying, copied_score, copying
from subgraft.evaluation.reporting.numbers import fixed, percent
from subgraft.evaluation.reporting.records import ReportData


@lru_cache(maxsize=1)
def copies(data: ReportData) -> dict[str, list[Copying]]:
    """The copies among each system's outputs, by seed; empty for a task within one language."""
    source, target = data.languages
    if source == target or not all(system.hypotheses for system in data.systems):
        return {}
    return {
        name: [copying(data.sources, result.hypotheses, target) for result in data.results(name)]
        for name in data.system_names
    }


def copying_notes(data: ReportData) -> list[str]:
    """What copies of the sources would score, and the share of them that each system writes."""
    by_system = copies(data)
    if not by_system:
        return []
    score = copied_score(data.sources, data.references, data.languages[1])
    shares = {name: sum(each.identical for each in seeds) / len(seeds) for name, seeds in by_system.items()}
    systems = ", ".join(f"{name} {percent(share)}" for name, share in shares.items() if share)
    written = f" Outputs that are copies of their sources: {systems}." if systems else ""
    return [f"BLEU of the sources themselves, as if they were translations: {fixed(score, 1)}.{written}"]


def systems_that_copy(data: ReportData) -> list[str]:
    """A line for each system that does little else than copy, under any seed."""
    return [
        f"{name} only copies: BLEU of its outputs against their sources is "
        f"{fixed(max(each.against_sources for each in seeds), 1)}. It has not learnt to translate."
        for name, seeds in copies(data).items()
        if any(each.only_copies for each in seeds)
    ]
