"""Notes of a report on outputs that are copies of their sources, or that are not in the target language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from subgraft.evaluation.metrics.untranslated import Copying, copied_scores, copying
from subgraft.evaluation.reporting.numbers import MISSING, fixed, percent
from subgraft.evaluation.reporting.records import ReportData

IDENTIFICATION_NOTE = (
    "Languages are identified by character n-grams (naive Bayes, learnt from the experiment's training text); und: "
    "outputs without a letter."
)


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
    """The scores of copies of the sources, and the share of copies among each system's outputs."""
    by_system = copies(data)
    if not by_system:
        return []
    scores = copied_scores(data.sources, data.references, data.languages[1])
    source_scores = " and ".join(f"{name} {fixed(score, 1)}" for name, score in scores.items())
    shares = {name: sum(result.identical for result in seeds) / len(seeds) for name, seeds in by_system.items()}
    systems = ", ".join(f"{name} {percent(share)}" for name, share in shares.items() if share)
    copies_note = f" Outputs that are copies of their sources: {systems}." if systems else ""
    return [
        f"The sources themselves, as if they were translations: {source_scores}.{copies_note}",
        *_language_notes(data),
    ]


def _language_notes(data: ReportData) -> list[str]:
    """The share of each system's outputs in the target language, where it was identified."""
    by_system = {name: [result.output_language for result in data.results(name)] for name in data.system_names}
    if not all(all(seeds) for seeds in by_system.values()):
        return []
    target = data.languages[1]
    shares = ", ".join(f"{name} {in_target(mean_shares(seeds), target)}" for name, seeds in by_system.items())
    return [f"Outputs in the language {target}: {shares}. {IDENTIFICATION_NOTE}"]


def mean_shares(by_seed: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The share of outputs in each language, as the mean over seeds; empty if any seed's are not known."""
    if not all(by_seed):
        return {}
    languages = dict.fromkeys(language for shares in by_seed for language in shares)
    return {name: sum(shares.get(name, 0.0) for shares in by_seed) / len(by_seed) for name in languages}


def in_target(shares: Mapping[str, float], target: str) -> str:
    """The share of outputs in the target language."""
    return percent(shares.get(target, 0.0)) if shares else MISSING


def systems_that_copy(data: ReportData) -> list[str]:
    """A line for each system that does little else than copy, under any seed."""
    return [
        f"{name} only copies: BLEU of its outputs against their sources is "
        f"{fixed(max(result.against_sources for result in seeds), 1)}. It has not learnt to translate."
        for name, seeds in copies(data).items()
        if any(result.only_copies for result in seeds)
    ]
