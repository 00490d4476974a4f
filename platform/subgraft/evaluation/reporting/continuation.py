"""The report on models that continue text or write for a source: bits per character, and scores of the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.significance import Comparison, Interval, compare, estimate, holm
from subgraft.evaluation.reporting.background import do_it_again, look_further, setup, subword_gap, time_spent
from subgraft.evaluation.reporting.document import Block, Document, Figure, Notice, Section, write_document
from subgraft.evaluation.reporting.findings import (
    GENERATED_NOTICE,
    busy_notes,
    on_few_seeds,
    selected_steps,
    untrained,
    untrained_notice,
)
from subgraft.evaluation.reporting.numbers import (
    MISSING,
    count,
    duration,
    equals,
    fixed,
    interval,
    millions,
    probability,
    signed,
)
from subgraft.evaluation.reporting.plots import learning_panels, plot_drift, plot_learning_curves
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.table import Column, MainTable, Table, table
from subgraft.evaluation.reporting.unknown_token_analysis import unknown_token_caption

# So many prompts are shown with what followed them.
SHOWN = 5


@dataclass(frozen=True)
class Judged:
    """A system over all of its seeds. comparison: with the baseline, None where there is none; p is Holm's."""

    results: tuple[SystemResult, ...]
    by_seed: tuple[float, ...]
    mean: float
    interval: Interval
    comparison: Comparison | None

    @property
    def name(self) -> str:
        return self.results[0].name


def bits_of(sums: FloatArray) -> FloatArray:
    """Bits per character of summed bits and characters, [..., 2] to [...]."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def judged(data: ReportData) -> list[Judged]:
    """Bits per character with intervals, by a paired bootstrap of the lines that every system's models take whole.

    Raises UserError where there are no results, or no such line.
    """
    if not data.systems:
        raise UserError("there are no results to report")
    whole = np.logical_and.reduce([_bits(system)[:, 1] > 0 for system in data.systems])
    if not whole.any():
        raise UserError("no test line is taken whole by the models of every system")
    systems = [_judged(data, data.results(name), whole) for name in data.system_names]
    compared = [place for place, each in enumerate(systems) if each.comparison]
    p_values = holm([systems[place].comparison.p_value for place in compared])  # type: ignore[union-attr]
    for place, p_value in zip(compared, p_values, strict=True):
        of_one = systems[place].comparison
        assert of_one is not None
        systems[place] = replace(systems[place], comparison=replace(of_one, p_value=p_value))
    return systems


def _bits(result: SystemResult) -> FloatArray:
    assert result.line_bits is not None
    return result.line_bits


def _judged(data: ReportData, results: tuple[SystemResult, ...], whole: np.ndarray) -> Judged:
    own = np.stack([_bits(result)[whole] for result in results])
    samples, seed = data.bootstrap_samples, data.bootstrap_seed
    mean = estimate(bits_of, own, samples=samples, seed=seed)
    by_seed = {result.seed: _bits(result)[whole] for result in results}
    baseline = {} if results[0].name == data.baseline else {r.seed: r for r in data.results(data.baseline or "")}
    shared = [result for result in results if result.seed in baseline]
    comparison = None
    if shared:
        ours = np.stack([by_seed[result.seed] for result in shared])
        theirs = np.stack([_bits(baseline[result.seed])[whole] for result in shared])
        comparison = compare(bits_of, ours, theirs, samples=samples, seed=seed)
    return Judged(results, tuple(bits_of(own.sum(axis=1)).tolist()), mean.score, mean.interval, comparison)


def continuation_table(data: ReportData) -> MainTable:
    """Each system with bits per character on the test text, difference, p, tokens and prompts per second.

    Of texts that are written for a source two of their scores, in the place of characters per token.
    """
    systems, scores = judged(data), headline_scores(data)
    caption = f"{count(len(data.references))} test lines, less is better; Δ and p against {data.baseline or 'nothing'}"
    caption += unknown_token_caption(data) + "".join(f"\n{remark}" for remark in _remarks(data, systems))
    if data.generated:
        caption += "\nbuilt-in generated corpus: it shows the machinery, not that a method wins"
    several = len(data.seeds) > 1
    seeds = [f"bits\nseed {seed}" for seed in data.seeds] if several else []
    written = tuple(scores[systems[0].name])
    length = ("tokens/\nline",) if written else ("tokens/\nline", "chars/\ntoken")
    headings = ("system", *seeds, "bits/\nchar", "Δ", "p", *written, *length, "prompts/\ns")
    rows = tuple(
        (
            system.name,
            *([fixed(bits, 3) for bits in system.by_seed] if several else []),
            fixed(system.mean, 3),
            *_against(system),
            *scores[system.name].values(),
            *_figures(system.results, written=bool(written)),
        )
        for system in systems
    )
    return MainTable(data.title, caption, headings, rows)


def _against(system: Judged) -> list[str]:
    compared = system.comparison
    return [signed(compared.difference, 3), probability(compared.p_value)] if compared else [MISSING, MISSING]


def _figures(results: Sequence[SystemResult], written: bool = False) -> list[str]:
    characters = [] if written else [fixed(fmean(result.characters_per_token for result in results))]
    return [
        fixed(fmean(result.tokens_per_sentence for result in results), 1),
        *characters,
        fixed(fmean(result.sentences_per_second for result in results), 1),
    ]


def _remarks(data: ReportData, systems: Sequence[Judged]) -> list[str]:
    not_trained = untrained(data)
    return [*on_few_seeds(_compared_seeds(systems)), *([not_trained] if not_trained else [])]


def _compared_seeds(systems: Sequence[Judged]) -> dict[str, int]:
    return {each.name: each.comparison.seeds if each.comparison else len(each.results) for each in systems}


def write_continuation_report(data: ReportData, out: Path) -> None:
    """Write report.html, report.md and plots/*.png into the existing directory `out`."""
    write_document(build_continuation_document(data), out)


def build_continuation_document(data: ReportData) -> Document:
    """The whole report, in the order in which it is read."""
    notice = [Notice(GENERATED_NOTICE)] if data.generated else []
    systems = judged(data)
    caption = "Means over seeds, bands from the least seed to the greatest. Every system sees the same batches."
    curves = Figure("learning_curves", plot_learning_curves(data), caption, learning_panels(data))
    sections = [
        Section("Results", (*notice, *untrained_notice(data), _score_table(data, systems), _cost_table(data, systems))),
        *written_section(data),
        Section("Learning curves", (selected_steps(data), curves)),
        subword_gap(data),
        Section("Continuations", (_examples(data),)),
        setup(data),
        time_spent(data),
        *([look_further(data)] if data.commands else []),
        do_it_again(data),
    ]
    about = f"{data.languages[0]} · {len(data.system_names)} systems · {count(len(data.references))} test lines"
    return Document(data.title, about, tuple(sections))


def _score_table(data: ReportData, systems: Sequence[Judged]) -> Table:
    columns = [
        Column("system", "left"),
        Column("by seed"),
        Column("bits per\ncharacter"),
        Column("95 %"),
        Column("Δ"),
        Column("95 %"),
        Column("p\n(Holm)"),
    ]
    against = f" p is two-sided, against {data.baseline}." if data.baseline else ""
    rows = []
    for system in systems:
        compared, (difference, p_value) = system.comparison, _against(system)
        between = interval(compared.interval, 3) if compared else MISSING
        seeds = " · ".join(fixed(bits, 3) for bits in system.by_seed)
        rows.append(
            [system.name, seeds, fixed(system.mean, 3), interval(system.interval, 3), difference, between, p_value]
        )
    return table(
        columns,
        rows,
        "Bits per character of the test text (less is better)",
        "Each line by itself, its end included; lines that some system's model cannot take whole are left out.",
        f"Intervals and p-values: paired bootstrap with {count(data.bootstrap_samples)} resamples of lines, and over "
        f"several seeds their variance by Student's t.{against}",
        *on_few_seeds(_compared_seeds(systems)),
    )


def _cost_table(data: ReportData, systems: Sequence[Judged]) -> Table:
    headings = ("tokens\nper line", "characters\nper token", "prompts\nper second", "parameters")
    times = ("upstream", "generator", "finetuning")
    rows = []
    for system in systems:
        bills = [result.bill for result in system.results]
        spent = [fmean(getattr(bill, name) for bill in bills) for name in times]
        parameters = millions(round(fmean(result.parameters for result in system.results)))
        costs = [duration(seconds) if seconds else MISSING for seconds in spent]
        rows.append([system.name, *_figures(system.results), parameters, *costs])
    return table(
        [Column("system", "left"), *map(Column, (*headings, *times))],
        rows,
        "Length, speed and cost; means over seeds",
        f"Prompts per second: {data.prompts}, in batches of {data.speed_batch_size}.",
        *busy_notes(data),
    )


def _examples(data: ReportData) -> Table:
    """The first prompts, and what the first seed of each system writes after them."""
    rows = []
    for place, prompt in enumerate(data.sources[:SHOWN]):
        rows.append([prompt, "the text itself", data.references[place]])
        rows += [["", name, data.results(name)[0].continuations[place]] for name in data.system_names]
    columns = [Column("prompt", "left"), Column("system", "left"), Column("continuation", "left")]
    return table(columns, rows, f"Prompts are {data.prompts}")


# Of scores that are not in points, how many digits count.
DIGITS = {"bits saved": 3}
EXPLAINED = {
    "bits saved": "Bits saved: how many bits per character fewer the test text takes given its own source than given "
    "another one; none where a model does not look at it.",
    "adherence": "Adherence: the share of written texts that a classifier of its own takes for the class they were "
    "written for; classifier accuracy is how often it is right about what people wrote.",
    "prompt ranking": "Prompt ranking: how often a text is likelier given its own source than given others; its "
    "signature says among how many, and what chance finds.",
    "distinct-1": "Distinct: the share of words, or of pairs of words, that are different; high where texts vary.",
}
# What a terminal has room for, at most two: whether it is right, and whether the source is read at all.
HEADLINES = ("exact match", "ROUGE-L", "adherence", "bits saved")


def headline_scores(data: ReportData) -> dict[str, dict[str, str]]:
    """Of each system its scores by heading, means over seeds; no headings where nothing is written for a source."""
    names = [name for name in HEADLINES if all(name in result.scores for result in data.systems)][:2]
    return {
        system: {
            name.replace(" ", "\n"): fixed(fmean(each.scores[name].value for each in results), DIGITS.get(name, 1))
            for name in names
        }
        for system in data.system_names
        for results in [data.results(system)]
    }


def written_scores(data: ReportData) -> tuple[Table, ...]:
    """Scores of the texts that were written for a source, a column each; empty where there is no source."""
    names = [name for name in data.systems[0].scores if all(name in system.scores for system in data.systems)]
    if not names:
        return ()
    p_values = {name: _p_values(data, name) for name in names}
    rows = []
    for system in data.system_names:
        results = data.results(system)
        drift = _mean_drift(results)
        cells = [_cell(data, results, name, p_values[name].get(system)) for name in names]
        rows.append([system, *cells, MISSING if drift is None else f"{drift:.1e}"])
    columns = [Column("system", "left"), *(Column(name.replace(" ", "\n")) for name in names), Column("drift")]
    return (table(columns, rows, "Scores of outputs, and how much the source contributes", *_notes(data, names)),)


def drift_curves(data: ReportData) -> tuple[Figure, ...]:
    """How far feed-forward weights move during finetuning; empty where drift was not measured."""
    if not any(point.drift is not None for system in data.systems for point in system.curve):
        return ()
    caption = (
        "Root median squared distance of the feed-forward weights from those that finetuning began with (Ziegler et "
        "al. 2019, figure 2). Means over seeds, bands from the least seed to the greatest."
    )
    return (Figure("drift", plot_drift(data), caption),)


def written_section(data: ReportData) -> tuple[Section, ...]:
    """Both, where there are any."""
    shown: tuple[Block, ...] = (*written_scores(data), *drift_curves(data))
    return (Section("Scores of outputs", shown),) if shown else ()


def _cell(data: ReportData, results: Sequence[SystemResult], name: str, p_value: float | None) -> str:
    """The mean over seeds, below it the 95 % interval, and what a comparison with the baseline gave."""
    digits = DIGITS.get(name, 1)
    between = _interval(data, results, name)
    lines = [fixed(fmean(result.scores[name].value for result in results), digits)]
    lines += [interval(between, digits)] if between else []
    return "\n".join([*lines, *([f"p {equals(p_value)}"] if p_value is not None else [])])


def _interval(data: ReportData, results: Sequence[SystemResult], name: str) -> Interval | None:
    """From resampled texts and the variance between seeds; for a score of all texts together from seeds alone."""
    samples, seed = data.bootstrap_samples, data.bootstrap_seed
    by_text = [result.statistics[name] for result in results if name in result.statistics]
    if len(by_text) == len(results) and len(set(map(len, by_text))) == 1:
        return estimate(name, np.stack(by_text), samples=samples, seed=seed).interval
    if len(results) == 1:
        return None
    # As if there were one text, which every resample has.
    alone = np.array([[[result.scores[name].value, 1.0]] for result in results])
    return estimate(bits_of, alone, samples=samples, seed=seed).interval


def _p_values(data: ReportData, name: str) -> dict[str, float]:
    """Of each system against the baseline, on the seeds that both have, by Holm; of scores that can be resampled."""
    p_values: dict[str, float] = {}
    baseline = {result.seed: result for result in data.results(data.baseline or "")}
    for system in data.system_names:
        pairs = [(result, baseline[result.seed]) for result in data.results(system) if result.seed in baseline]
        statistics = [(ours.statistics.get(name), theirs.statistics.get(name)) for ours, theirs in pairs]
        if system == data.baseline or not _alike(statistics):
            continue
        ours, theirs = (np.stack([pair[side] for pair in statistics]) for side in (0, 1))  # type: ignore[misc]
        p_values[system] = compare(name, ours, theirs, samples=data.bootstrap_samples, seed=data.bootstrap_seed).p_value
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def _alike(statistics: Sequence[tuple[FloatArray | None, FloatArray | None]]) -> bool:
    """Whether all are there and of as many texts."""
    sizes = {None if one is None else len(one) for pair in statistics for one in pair}
    return len(sizes) == 1 and None not in sizes


def _mean_drift(results: Sequence[SystemResult]) -> float | None:
    """The mean drift of the selected weights."""
    selected = [point.drift for result in results for point in result.curve if point.step == result.selected_step]
    known = [drift for drift in selected if drift is not None]
    return fmean(known) if known and len(known) == len(results) else None


def _notes(data: ReportData, names: Sequence[str]) -> list[str]:
    against = f" p is two-sided, against {data.baseline}, Holm's for each score." if data.baseline else ""
    scores = data.systems[0].scores
    return [
        *(EXPLAINED[name] for name in names if name in EXPLAINED),
        "Drift: the root median squared distance of feed-forward weights from where finetuning began; – where a model "
        "begins with none that were pretrained.",
        f"Below each score its 95 % interval: {count(data.bootstrap_samples)} resamples of texts, and over several "
        f"seeds their variance by Student's t; of distinct, that variance alone.{against}",
        "Signatures: " + "; ".join(f"{name} {scores[name].signature}" for name in names),
    ]
