"""The main table, computed from all the records of a report."""

from __future__ import annotations

from subgraft.evaluation.reporting.findings import remarks
from subgraft.evaluation.reporting.main_table import MainTable
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, probability, signed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.evaluation.reporting.unknown_token_analysis import unspelled_caption


def terminal_table(data: ReportData) -> MainTable:
    """Each system with every seed's BLEU, mean, difference, p, bits per character, tokens and sentences per second.

    Bits per character are of the selected weights, like all other figures.
    Where forgetting was measured, BLEU on the upstream test set comes last.
    """
    caption = f"{count(len(data.references))} test sentences; Δ and p against {data.baseline or 'nothing'}"
    caption += unspelled_caption(data)
    caption += "".join(f"\n{remark}" for remark in remarks(data))
    if data.generated:
        caption += "\nbuilt-in generated corpus: it shows the machinery, not that a method wins"
    seeds = [f"BLEU\nseed {seed}" for seed in data.seeds] if len(data.seeds) > 1 else []
    forgotten = ["upstr.\nBLEU"] if _with_upstream(data) else []
    figures = (*seeds, "BLEU", "Δ", "p", "bits/\nchar", "tokens/\nsent.", "sent./\ns", *forgotten)
    systems = tuple((system.name, *_cells(system, data)) for system in summarise(data))
    return MainTable(data.title, caption, ("system", *figures), systems)


def _cells(system: SystemSummary, data: ReportData) -> list[str]:
    bleu = system.metrics["BLEU"]
    seeds = [fixed(bleu.by_seed.get(seed)) for seed in data.seeds] if len(data.seeds) > 1 else []
    comparison = bleu.comparison
    against = [signed(comparison.difference), probability(comparison.p_value)] if comparison else [MISSING, MISSING]
    figures = [
        fixed(system.bits.kept, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(system.sentences_per_second, 1),
    ]
    upstream = [fixed(system.forgetting.after if system.forgetting else None)] if _with_upstream(data) else []
    return [*seeds, fixed(bleu.mean), *against, *figures, *upstream]


def _with_upstream(data: ReportData) -> bool:
    return any(system.forgetting is not None for system in data.systems)
