"""Notices that a report begins with, and remarks next to figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from subgraft.evaluation.metrics.significance import FEWEST_SEEDS, LEVEL, Claim, Comparison
from subgraft.evaluation.reporting.copies import systems_that_copy
from subgraft.evaluation.reporting.document import Notice
from subgraft.evaluation.reporting.numbers import equals, fixed
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.summary import summarise
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.evaluation.reporting.unknown_token_analysis import unknown_token_caption

GENERATED_NOTICE = "Built-in generated corpus: it shows the machinery, not that a method wins."


def generated_notice(is_generated: bool) -> tuple[Notice, ...]:
    return (Notice(GENERATED_NOTICE),) if is_generated else ()


def notices(data: ReportData) -> tuple[Notice, ...]:
    """What its reader must know of all figures: invented text, models that are not finetuned, and copies."""
    step_zero = (f"Step 0: {line[:1].lower()}{line[1:]}" for line in untrained(data))
    return (*generated_notice(data.generated), *map(Notice, (*step_zero, *systems_that_copy(data))))


# Remarks next to figures: the claim that a difference supports, and finetunings that changed nothing.

_VERDICTS: Mapping[Claim, str] = {
    Claim.SIGNIFICANT: "significant",
    Claim.NOT_SIGNIFICANT: "not significant",
    Claim.TOO_FEW_SEEDS: "on too few seeds to call it significant",
    Claim.OUTPUTS_DIFFER: "beyond the sampling error of the sentences, for one seed only",
    Claim.OUTPUTS_ALIKE: "within the sampling error of the sentences, for one seed only",
}


def claim_in_words(comparison: Comparison) -> str:
    """The claim that a difference supports."""
    return _VERDICTS[comparison.claim()]


def verdict(comparison: Comparison, level: float = LEVEL) -> str:
    """The claim that a difference supports, with its p-value, and the one that agrees with the interval."""
    alone = comparison.p_alone
    corrected = "" if alone is None else f" with Holm's correction, p {equals(alone)} without, as the interval is"
    return f"{_VERDICTS[comparison.claim(level)]} (p {equals(comparison.p_value)}{corrected})"


def compared_seeds(data: ReportData) -> dict[str, int]:
    """By system, how many seeds its comparison is over."""
    return {system.name: system.metrics["BLEU"].compared_seeds for system in summarise(data)}


def caption_remarks(data: ReportData, seeds: Mapping[str, int]) -> str:
    """Additional lines of a caption in a terminal, which shows only the table. seeds: compared seeds by system."""
    lines = [*on_few_seeds(seeds), *untrained(data), *systems_that_copy(data)]
    lines += [GENERATED_NOTICE[0].lower() + GENERATED_NOTICE[1:].removesuffix(".")] if data.generated else []
    return unknown_token_caption(data) + "".join(f"\n{line}" for line in lines)


def on_few_seeds(seeds: Mapping[str, int]) -> list[str]:
    """Caveats on intervals and p-values of systems with fewer than three seeds."""
    by_seeds = {
        1: "On one seed{}, intervals and p-values describe these outputs only; other seeds may differ.",
        2: f"On two seeds{{}} nothing is called significant: that takes {FEWEST_SEEDS}.",
    }
    notes = []
    for seed_count, remark in by_seeds.items():
        names = [name for name, number in seeds.items() if number == seed_count]
        names_note = "" if len(names) == len(seeds) else f" ({', '.join(names)})"
        notes += [remark.format(names_note)] if names else []
    return notes


def untrained(data: ReportData) -> list[str]:
    """A line that names the systems that were best on dev before any training, if there are any."""
    seeds: dict[str, list[int]] = {}
    for system in data.systems:
        if system.untrained:
            seeds.setdefault(system.name, []).append(system.seed)
    names = "; ".join(f"{name}, {_seed_list(numbers)}" for name, numbers in seeds.items())
    line = f"Best on dev before any training, so that these are scores of models that are not finetuned: {names}."
    return [line] if seeds else []


def _seed_list(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, sorted(seeds)))}"


# Remarks on speeds that were measured on a busy machine.


def is_busy(result: SystemResult) -> bool:
    """Whether the load average exceeded the cores while speed was measured; False if it was not recorded."""
    return result.load is not None and result.cores is not None and result.load > result.cores


def busy_mark(name: str, data: ReportData) -> tuple[Span, ...]:
    """The mark below a system's speed if a seed was measured on a busy machine."""
    loads = [result.load or 0.0 for result in data.results(name) if is_busy(result)]
    return (Span("\n"), Span(f"busy: load {fixed(max(loads), 0)}", "warning")) if loads else ()


def busy_notes(data: ReportData) -> list[str]:
    """A note on speeds that were measured on a busy machine, if any."""
    busy = [result for result in data.systems if is_busy(result)]
    if not busy:
        return []
    cores = ", ".join(sorted({str(result.cores) for result in busy}))
    return [
        f"Busy: {len(busy)} of {len(data.systems)} speeds were measured while the load average exceeded the machine's"
        f" cores ({cores}). They are too low, by a different amount each."
    ]


# Which step's weights were selected in each finetuning, and a warning where that is step 0.


def selected_steps(data: ReportData) -> Table:
    """The selected steps by seed, with the last step; step 0 is step_zero_mark."""
    rows: list[list[str | Text]] = []
    for name in data.system_names:
        results = data.results(name)
        steps: list[Span] = []
        for result in results:
            steps += [Span(" · ")] if steps else []
            steps.append(Span(str(result.selected_step), "warning" if result.untrained else "plain"))
        last = {result.curve[-1].step for result in results if result.curve}
        rows.append([name, tuple(steps), " · ".join(map(str, sorted(last)))])
    headings = ["system", "step of the selected\nweights, by seed", "last step"]
    return table(headings, rows, "The weights behind the test scores")


def step_zero_mark(name: str, data: ReportData) -> Text:
    """The mark below a system's name in tables of scores if some seed has the weights of step 0."""
    zero = any(result.untrained for result in data.results(name))
    return text("\n", Span("weights of step 0", "warning")) if zero else ()
