"""The report on models that continue text or write for a source: bits per character, and scores of the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, ratio
from subgraft.evaluation.metrics.significance import Comparison, Interval, estimate
from subgraft.evaluation.reporting import findings, report
from subgraft.evaluation.reporting.answer import BITS_RULE, Answer, answer_by_bits
from subgraft.evaluation.reporting.document import (
    NOTHING_MEASURED,
    Block,
    Document,
    Figure,
    Measured,
    Notice,
    Section,
)
from subgraft.evaluation.reporting.numbers import (
    MISSING,
    count,
    equals,
    fixed,
    interval,
    percent,
    signed,
)
from subgraft.evaluation.reporting.plots import curves_figure, plot_drift
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.results import COSTS, P_HEADING, SCORES, against_cells, model_cost_cells, p_cell
from subgraft.evaluation.reporting.summary import MetricSummary, compare_all, summarise_scores
from subgraft.evaluation.reporting.table import MainTable, Table, Text, table

MAX_PROMPTS = 5  # shown with their continuations


@dataclass(frozen=True)
class Continued:
    """The outputs of a model that continues text or writes for a source; only the latter has scores.

    Attributes:
        line_bits: Each test line's bits and their characters [n, 2].
        texts: The outputs, after the first halves of test lines or for sources.
        tokens_per_prompt: Mean length of the test prompts with the chat template, if it answers in conversations.
    """

    line_bits: FloatArray = field(compare=False, repr=False)
    texts: tuple[str, ...] = ()
    tokens_per_prompt: float | None = None


@lru_cache(maxsize=4)
def summarise_bits(data: ReportData) -> dict[str, MetricSummary]:
    """Bits per character by system, with intervals, on the lines that every system's models take whole.

    Raises UserError where there are no results, or no such line.
    """
    if not data.systems:
        raise UserError("there are no results to report")
    continued = {(system.name, system.seed): system.measured(Continued) for system in data.systems}
    return summarise_lines(data, {run: each.line_bits for run, each in continued.items() if each})


def summarise_lines(data: ReportData, bits: Mapping[tuple[str, int], FloatArray]) -> dict[str, MetricSummary]:
    """Bits per character by system, from the bits and characters of each line [n, 2], by system and seed.

    Raises UserError where no line is taken whole by all models.
    """
    complete = taken_whole(bits.values())
    if not complete.any():
        raise UserError("no test line is taken whole by the models of every system")
    statistics = {run: lines[complete] for run, lines in bits.items()}
    scores = {run: float(ratio(lines.sum(axis=0))) for run, lines in statistics.items()}
    return summarise_scores(data, ratio, statistics, scores)


def taken_whole(bits: Iterable[FloatArray]) -> NDArray[np.bool_]:
    """Whether all models take a line whole [n]."""
    complete: NDArray[np.bool_] = np.logical_and.reduce([lines[:, 1] > 0 for lines in bits])
    return complete


def continuation_table(data: ReportData) -> MainTable:
    """Each system with bits per character on the test text, difference, p, tokens and prompts per second.

    Outputs that are written for a source have two of their scores in the place of characters per token.
    """
    systems, scores = summarise_bits(data), headline_scores(data)
    caption = f"{count(len(data.references))} test lines, less is better; Δ and p against {data.baseline or 'nothing'}"
    caption += findings.caption_remarks(data, {name: system.compared_seeds for name, system in systems.items()})
    by_seed = len(data.seeds) > 1
    seeds = [f"bits\nseed {seed}" for seed in data.seeds] if by_seed else []
    score_headings = tuple(scores[data.system_names[0]])
    length = ["tokens/\nline", *([] if score_headings else ["chars/\ntoken"])]
    length += ["tokens/\nprompt"] if _has_prompt_lengths(data) else []
    rows = tuple(
        (
            name,
            *([fixed(bits, 3) for bits in system.by_seed.values()] if by_seed else []),
            fixed(system.mean, 3),
            *against_cells(system.comparison, 3),
            *scores[name].values(),
            *_cost_cells(data.results(name), has_scores=bool(score_headings)),
        )
        for name, system in systems.items()
    )
    headings = ("system", *seeds, "bits/\nchar", "Δ", "p", *score_headings, *length, "prompts/\ns")
    return MainTable(data.title, caption, headings, rows)


def _has_prompt_lengths(data: ReportData) -> bool:
    return len(_prompt_lengths(data.systems)) == len(data.systems)


def _prompt_lengths(results: Sequence[SystemResult]) -> list[float]:
    continued = (result.measured(Continued) for result in results)
    return [each.tokens_per_prompt for each in continued if each and each.tokens_per_prompt is not None]


def _cost_cells(results: Sequence[SystemResult], has_scores: bool = False) -> list[str]:
    characters = [] if has_scores else [fixed(fmean(result.characters_per_token for result in results))]
    prompts = _prompt_lengths(results)
    return [
        fixed(fmean(result.tokens_per_sentence for result in results), 1),
        *characters,
        *([fixed(fmean(prompts), 1)] if prompts else []),
        fixed(fmean(result.sentences_per_second for result in results), 1),
    ]


def continuation_answer(data: ReportData, other: Mapping[str, Comparison]) -> Answer:
    """Which system to take, by bits per character. other: differences from the baseline on other text, by system."""
    return answer_by_bits(data, summarise_bits(data), other)


def build_continuation_document(data: ReportData, answer: Answer, measured: Measured = NOTHING_MEASURED) -> Document:
    """The whole report, in the order in which it is read."""
    systems = summarise_bits(data)
    sections = (
        Section(SCORES, (_score_table(data, systems),)),
        *written_section(data),
        *measured.after_results,
        Section(COSTS, (_cost_table(data),)),
        Section("Selected weights", (findings.selected_steps(data),)),
        *measured.after_learning,
        report.subword_gap(data),
        Section("Continuations", (_examples(data),)),
        *report.background(data, BITS_RULE),
    )
    lead = report.first_screen(data, answer, curves_figure(data), _lost_notice(data))
    return Document(data.title, report.subtitle(data, "test lines"), sections, lead=lead)


def _lost_notice(data: ReportData) -> tuple[Notice, ...]:
    """A warning if the downstream vocabulary cannot distinguish text that the upstream one can."""
    lost = data.gap.lost.get("decoder")
    if lost is None or not lost.lost:
        return ()
    return (
        Notice(
            f"Bits per character do not compare these vocabularies fairly: the downstream one changes "
            f"{percent(lost.share)} of the test lines, and takes no bits for what it loses."
        ),
    )


def _score_table(data: ReportData, systems: Mapping[str, MetricSummary]) -> Table:
    rows = list[list[str | Text]]()
    for name, system in systems.items():
        compared, seeds = system.comparison, " · ".join(fixed(bits, 3) for bits in system.by_seed.values())
        difference = (
            [signed(compared.difference, 3), interval(compared.interval, 3), p_cell(compared)]
            if compared
            else [MISSING] * 3
        )
        rows.append([name, seeds, fixed(system.mean, 3), interval(system.interval, 3), *difference])
    return table(
        ["system", "by seed", "bits per\ncharacter", "95 %", "Δ", "95 %", P_HEADING],
        rows,
        "Bits per character of the test text (less is better)",
        "Each line by itself, its end included; lines that some system's model cannot take whole are left out.",
    )


def _cost_table(data: ReportData) -> Table:
    prompts = ["tokens\nper prompt"] if _has_prompt_lengths(data) else []
    headings = ["system", "tokens\nper line", "characters\nper token", *prompts, "prompts\nper second", "parameters"]
    rows = []
    for name in data.system_names:
        results = data.results(name)
        rows.append([name, *_cost_cells(results), *model_cost_cells(results)])
    return table(
        [*headings, "upstream", "generator", "finetuning"],
        rows,
        "Length, speed and cost; means over seeds",
        f"Prompts per second: {data.prompts}, in batches of {data.speed_batch_size}.",
        *findings.busy_notes(data),
    )


def _examples(data: ReportData) -> Table:
    """The first prompts, and what the first seed of each system writes after them."""
    rows, by_system = [], data.measured(Continued)
    for index, prompt in enumerate(data.sources[:MAX_PROMPTS]):
        rows.append([prompt, "the text itself", data.references[index]])
        rows += [["", name, continued[0].texts[index]] for name, continued in by_system.items()]
    return table(["prompt", "system", "continuation"], rows, f"Prompts are {data.prompts}", left=(0, 1, 2))


# The significant digits of scores that are not in points.
DIGITS = {"bits saved": 3}
EXPLANATIONS = {
    "bits saved": "Bits saved: how many bits per character fewer the test text takes given its own source than given "
    "another one; 0 if a model ignores it.",
    "adherence": "Adherence: the share of written texts that an independent classifier assigns to the class that they "
    "were written for; classifier accuracy is its accuracy on texts by people.",
    "prompt ranking": "Prompt ranking: how often a text is likelier given its own source than given others; its "
    "signature has the number of candidates and the chance level.",
    "distinct-1": "Distinct: the share of words, or of pairs of words, that are different; high where texts vary.",
}
# A terminal has room for two: whether the text is correct, and whether the model uses the source at all.
HEADLINES = ("exact match", "ROUGE-L", "adherence", "bits saved")


def _common_scores(data: ReportData) -> list[str]:
    """The scores that every system has, in order."""
    return [name for name in data.systems[0].scores if all(name in system.scores for system in data.systems)]


def _mean(results: Sequence[SystemResult], name: str) -> str:
    return fixed(fmean(result.scores[name].value for result in results), DIGITS.get(name, 1))


def headline_scores(data: ReportData) -> dict[str, dict[str, str]]:
    """Each system's scores by heading, as means over seeds; no headings if nothing is generated for a source."""
    common = _common_scores(data)
    names = [name for name in HEADLINES if name in common][:2]
    return {
        system: {name.replace(" ", "\n"): _mean(data.results(system), name) for name in names}
        for system in data.system_names
    }


def written_scores(data: ReportData) -> tuple[Table, ...]:
    """Scores of the texts that were written for a source, a column each; empty where there is no source."""
    names = _common_scores(data)
    if not names:
        return ()
    p_values = dict[str, dict[str, float]]()  # by score and system, of scores that can be resampled
    for name in names:
        by_run = {(each.name, each.seed): each.statistics[name] for each in data.systems if name in each.statistics}
        p_values[name] = {system: each.p_value for system, each in compare_all(data, name, by_run).items()}
    rows = []
    for system in data.system_names:
        results = data.results(system)
        selected = [point.drift for result in results for point in result.curve if point.step == result.selected_step]
        drifts = [drift for drift in selected if drift is not None]
        drift = f"{fmean(drifts):.1e}" if drifts and len(drifts) == len(results) else MISSING
        rows.append([system, *(_cell(data, results, name, p_values[name].get(system)) for name in names), drift])
    headings = ["system", *(name.replace(" ", "\n") for name in names), "drift"]
    against = f" p is two-sided, against {data.baseline}, Holm's for each score." if data.baseline else ""
    scores = data.systems[0].scores
    notes = [
        *(EXPLANATIONS[name] for name in names if name in EXPLANATIONS),
        "Drift: the root median squared distance of feed-forward weights from where finetuning began; – for a model "
        "without pretrained ones.",
        f"Below each score its 95 % interval: {count(data.bootstrap_samples)} resamples of texts, and over several "
        f"seeds their variance by Student's t; of distinct, that variance alone.{against}",
        "Signatures: " + "; ".join(f"{name} {scores[name].signature}" for name in names),
    ]
    return (table(headings, rows, "Scores of outputs, and how much the source contributes", *notes),)


def drift_curves(data: ReportData) -> tuple[Figure, ...]:
    """How far feed-forward weights move during finetuning; empty where drift was not measured."""
    if not any(point.drift is not None for system in data.systems for point in system.curve):
        return ()
    caption = (
        "Root median squared distance of the feed-forward weights from those that finetuning began with (Ziegler et "
        "al. 2019, figure 2). Lines are means over seeds, bands their range."
    )
    return (Figure("drift", plot_drift(data), caption),)


def written_section(data: ReportData) -> tuple[Section, ...]:
    """The scores of outputs and the drift, where either exists."""
    blocks: tuple[Block, ...] = (*written_scores(data), *drift_curves(data))
    return (Section("Scores of outputs", blocks),) if blocks else ()


def _cell(data: ReportData, results: Sequence[SystemResult], name: str, p_value: float | None) -> str:
    """The mean over seeds, below it the 95 % interval, and the p-value of the comparison with the baseline."""
    score_interval = _interval(data, results, name)
    lines = [_mean(results, name), *([interval(score_interval, DIGITS.get(name, 1))] if score_interval else [])]
    return "\n".join([*lines, *([f"p {equals(p_value)}"] if p_value is not None else [])])


def _interval(data: ReportData, results: Sequence[SystemResult], name: str) -> Interval | None:
    """From resampled texts and the variance between seeds; for a score of all texts together from seeds alone."""
    samples, seed = data.bootstrap_samples, data.bootstrap_seed
    by_text = [result.statistics[name] for result in results if name in result.statistics]
    if len(by_text) == len(results) and len(set(map(len, by_text))) == 1:
        return estimate(name, np.stack(by_text), samples=samples, seed=seed).interval
    if len(results) == 1:
        return None
    # Statistics of a single text, which every resample contains: only the seeds vary.
    single_text = np.array([[[result.scores[name].value, 1.0]] for result in results])
    return estimate(ratio, single_text, samples=samples, seed=seed).interval
