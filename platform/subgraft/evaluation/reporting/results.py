"""The results of a report: test scores, costs and learning curves, and the main table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from subgraft.config.settings_base import MetricName
from subgraft.config.training import SelectName
from subgraft.evaluation.metrics.calibration import BINS
from subgraft.evaluation.metrics.scores import LOWER_IS_BETTER
from subgraft.evaluation.metrics.significance import Comparison
from subgraft.evaluation.reporting import findings
from subgraft.evaluation.reporting.copies import copying_notes
from subgraft.evaluation.reporting.document import Figure, MainColumn, Section
from subgraft.evaluation.reporting.numbers import (
    MISSING,
    count,
    duration,
    fixed,
    gibibytes,
    interval,
    millions,
    probability,
    signed,
)
from subgraft.evaluation.reporting.plots import curves_figure, plot_costs
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.summary import (
    MetricSummary,
    SystemSummary,
    baseline_of,
    mean_cost,
    summarise,
    summarise_spelled,
)
from subgraft.evaluation.reporting.table import MainTable, Span, Table, Text, table, text

# The scores in a comparison's main table; the others have a table of their own.
MAIN_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")
# Sections of every report.
SCORES = "Scores by seed, with intervals and p-values"
COSTS = "Length, speed and cost"
LEARNING_CURVES = "Learning curves"
# The criterion by which a finetuning selected its weights, in words.
_SELECTION_CRITERIA: Mapping[SelectName, str] = {
    "bleu": "with the best dev BLEU",
    "chrf": "with the best dev chrF",
    "likelihood": "with the least dev bits per character",
    "last": "of the last step",
}


def results(data: ReportData) -> tuple[Section, ...]:
    """Scores with intervals, differences from the baseline, and what each system costs."""
    systems = summarise(data)
    costs = f"Speed of generation (batches of {data.speed_batch_size}) and seconds billed for one model of each system."
    scores = (_score_table(data, systems), *_spelled_scores(data), _other_scores(data, systems))
    figure = Figure("costs", plot_costs(data, systems), costs)
    return Section(SCORES, scores), Section(COSTS, (_cost_table(data, systems), figure))


def _score_table(data: ReportData, systems: Sequence[SystemSummary]) -> Table:
    headings = [heading for metric in MAIN_METRICS for heading in (f"{metric}\nby seed", *_headings(metric))]
    notes = _signatures(data, MAIN_METRICS)
    rows = [
        [_name_cell(system, data), *(cell for metric in MAIN_METRICS for cell in score_cells(system.metrics[metric]))]
        for system in systems
    ]
    return table(["system", *headings], rows, "Scores on the test set", *notes)


def _spelled_scores(data: ReportData) -> list[Table]:
    """The main scores without the sentences that some system's vocabularies cannot spell, where there are any."""
    mask = data.spelled_by_all
    if mask is None or mask.all():
        return []
    caption = (
        f"Scores on the {count(int(mask.sum()))} of {count(len(mask))} test {data.unit} that every system can spell"
    )
    note = "Neither source nor reference has an unknown token, whatever the system: here no gain is spelling alone."
    return [_scores_without_seeds(data, summarise_spelled(data, MAIN_METRICS), MAIN_METRICS, caption, note)]


def _other_scores(data: ReportData, systems: Sequence[SystemSummary]) -> Table:
    """The other metrics, and those of a user's own, without a column for the seeds."""
    metrics = [*(metric for metric in data.metrics if metric not in MAIN_METRICS), *data.plugin_metrics]
    note = ["TER counts edits: lower is better, and a negative difference is a gain."] if "TER" in metrics else []
    signatures = _signatures(data, metrics)
    return _scores_without_seeds(data, systems, metrics, "Other scores on the test set", *note, *signatures)


def _scores_without_seeds(
    data: ReportData, systems: Sequence[SystemSummary], metrics: Sequence[str], caption: str, *notes: str | Text
) -> Table:
    headings = [heading for metric in metrics for heading in _headings(metric)]
    rows = [
        [_name_cell(system, data), *(cell for metric in metrics for cell in score_cells(system.metrics[metric])[1:])]
        for system in systems
    ]
    return table(["system", *headings], rows, caption, *notes)


def _headings(metric: str) -> list[str]:
    return score_headings(metric, lower_is_better=metric in LOWER_IS_BETTER)


def score_headings(metric: str, *, lower_is_better: bool) -> list[str]:
    """The headings of the cells of `score_cells` but the first."""
    better = "\n(lower is better)" if lower_is_better else ""
    return [f"{metric}\nmean [95 %]{better}", f"Δ {metric}\n[95 %]{better}", P_HEADING]


def score_cells(summary: MetricSummary) -> list[str | Text]:
    """A metric of a system by seed, its mean, and its difference from the baseline with p; intervals below both."""
    seeds = " · ".join(fixed(value) for value in summary.by_seed.values())
    mean = text(Span(fixed(summary.mean), "strong"), "\n", Span(interval(summary.interval), "faint"))
    comparison = summary.comparison
    if comparison is None:
        return [seeds, mean, MISSING, MISSING]
    difference = text(signed(comparison.difference), "\n", Span(interval(comparison.interval), "faint"))
    return [seeds, mean, difference, p_cell(comparison)]


P_HEADING = "p (Holm)\np alone"
P_NOTE = (
    "p is two-sided, with Holm's correction for the number of systems; p alone and intervals have none, so that an "
    "interval may exclude 0 where p is over 0.05."
)


def p_cell(comparison: Comparison) -> str | Text:
    """The p-value; if it is corrected, also the one without a correction below it."""
    p_value, alone = probability(comparison.p_value), comparison.p_alone
    return p_value if alone is None else text(p_value, "\n", Span(probability(alone), "faint"))


def _signatures(data: ReportData, metrics: Sequence[str]) -> list[Text]:
    signatures = {system.scores[metric].signature: metric for system in data.systems for metric in metrics}
    return [text(f"{name}: ", Span(signature, "code")) for signature, name in signatures.items()]


def _cost_table(data: ReportData, systems: Sequence[SystemSummary]) -> Table:
    headings = ["system", "bits/char\nstep 0", "bits/char\n1st epoch", "bits/char\nkept", "tokens per\nsentence"]
    headings += ["characters\nper token", "inference\nECE", "sentences\nper second", "parameters"]
    headings += ["upstream", "generator", "finetuning"]
    baseline = baseline_of(systems, data)
    multiples = f"× is how many times the figure of {data.baseline}. " if baseline else ""
    return table(
        headings,
        [[_name_cell(system, data), *_cost_cells(system, baseline or system, data)] for system in systems],
        "Fit, length, calibration, speed and cost; means over seeds",
        "Bits per character on the dev set, target side, end of sentence included: comparable across vocabularies. "
        f"Kept: of the weights {_SELECTION_CRITERIA[data.select]}, which the other figures and the test scores are of.",
        "Tokens per sentence and characters per token: test references in the system's vocabulary. "
        "Inference ECE: how far the probability of output tokens is from how often they are right, by TER alignment "
        f"with the reference in the system's own tokens; {BINS} equally wide bins (Wang et al. 2020); lower is better.",
        f"Sentences per second: beam search in batches of {data.speed_batch_size}. "
        f"{multiples}Systems were timed one after another.",
        *findings.busy_notes(data),
        "Upstream, generator, finetuning: time to make one model; systems with the same upstream model share its time.",
        *_exceptions(data),
        *copying_notes(data),
    )


def _exceptions(data: ReportData) -> list[str]:
    """Notes on parts of models that were trained, references that were left out, and unfinished outputs, if any."""
    notes = []
    firsts = {name: data.results(name)[0] for name in data.system_names}
    shares = {round((first.trained_parameters or 0) / first.parameters, 2) for first in firsts.values()}
    if len(shares) > 1 and all(first.trained_parameters for first in firsts.values()):
        trained = ", ".join(
            f"{name} {millions(first.trained_parameters or 0)} ({gibibytes(first.peak_memory or 0)})"
            for name, first in firsts.items()
        )
        notes.append(f"Parameters that finetuning trained (peak memory of one worker): {trained}.")
    left_out = {
        name: max((point.references_left_out for result in data.results(name) for point in result.curve), default=0)
        for name in data.system_names
    }
    if any(left_out.values()):
        longer = ", ".join(f"{name} {count(number)}" for name, number in left_out.items() if number)
        notes.append(f"Dev references longer than the model takes, left out of bits per character: {longer}.")
    unfinished = {name: sum(result.cut_outputs for result in data.results(name)) for name in data.system_names}
    if any(unfinished.values()):  # they hold up their batches
        numbers = ", ".join(f"{name} {count(number)}" for name, number in unfinished.items())
        notes.append(f"Outputs that ended at the length limit, all seeds: {numbers}.")
    return notes


def _cost_cells(system: SystemSummary, baseline: SystemSummary, data: ReportData) -> list[str | Text]:
    rate, baseline_rate = system.sentences_per_second, baseline.sentences_per_second
    speed = _against(fixed(rate, 1), rate, baseline_rate)
    return [
        fixed(system.bits.start, 3),
        fixed(system.bits.first_epoch, 3),
        fixed(system.bits.selected, 3),
        _against(fixed(system.tokens_per_sentence, 1), system.tokens_per_sentence, baseline.tokens_per_sentence),
        fixed(system.characters_per_token),
        fixed(system.inference_ece, 3),
        text(*([speed] if isinstance(speed, str) else speed), *findings.busy_mark(system.name, data)),
        _against(millions(system.parameters), system.parameters, baseline.parameters),
        duration(system.cost.upstream) if system.cost.upstream else MISSING,
        duration(system.cost.generator) if system.cost.generator else MISSING,
        duration(system.cost.finetuning),
    ]


def _against(formatted: str, value: float, baseline: float) -> str | Text:
    """A figure, and under it, unless it is the baseline's own, its ratio to the baseline's."""
    if value == baseline or not baseline:
        return formatted
    return text(formatted, "\n", Span(f"×{fixed(value / baseline)}", "faint"))


def _name_cell(system: SystemSummary, data: ReportData) -> Text:
    name = (
        text(Span(system.name, "strong"), Span("\nbaseline", "faint"))
        if system.name == data.baseline
        else text(system.name)
    )
    return (*name, *findings.step_zero_mark(system.name, data))


def learning(data: ReportData) -> Section:
    """Dev curves during finetuning."""
    return Section(LEARNING_CURVES, (findings.selected_steps(data), curves_figure(data)))


def terminal_table(data: ReportData, columns: Sequence[MainColumn] = ()) -> MainTable:
    """Each system with every seed's BLEU, mean, difference, p, bits per character, tokens and sentences per second.

    Bits per character are of the selected weights, like all other figures.

    columns: those of measurements, which come last.
    """
    caption = f"{count(len(data.references))} test {data.unit}; Δ and p against {data.baseline or 'nothing'}"
    caption += findings.caption_remarks(data, findings.compared_seeds(data))
    seeds = [f"BLEU\nseed {seed}" for seed in data.seeds] if len(data.seeds) > 1 else []
    headings = (*seeds, "BLEU", "Δ", "p", "bits/\nchar", "tokens/\nsent.", "sent./\ns")
    systems = tuple(
        (system.name, *_cells(system, data), *(column.cells.get(system.name, MISSING) for column in columns))
        for system in summarise(data)
    )
    return MainTable(data.title, caption, ("system", *headings, *(column.heading for column in columns)), systems)


def _cells(system: SystemSummary, data: ReportData) -> list[str]:
    bleu = system.metrics["BLEU"]
    seeds = [fixed(bleu.by_seed.get(seed)) for seed in data.seeds] if len(data.seeds) > 1 else []
    figures = [
        fixed(system.bits.selected, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(system.sentences_per_second, 1),
    ]
    return [*seeds, fixed(bleu.mean), *against_cells(bleu.comparison), *figures]


def against_cells(comparison: Comparison | None, digits: int = 2) -> list[str]:
    """A difference from the baseline, and its p-value."""
    return [signed(comparison.difference, digits), probability(comparison.p_value)] if comparison else [MISSING] * 2


def model_cost_cells(results: Sequence[SystemResult]) -> list[str]:
    """The parameters of a system's models, and the time to make one: upstream, generator, finetuning."""
    parameters = millions(round(fmean(result.parameters for result in results)))
    return [parameters, *(duration(seconds) if seconds else MISSING for seconds in vars(mean_cost(results)).values())]
