"""The outcome of a fit: a table, the advice, and the advised model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Self

from subgraft.evaluation.metrics.significance import FEWEST_SEEDS, LEVEL, Comparison
from subgraft.evaluation.reporting.findings import caption_remarks, compared_seeds, verdict
from subgraft.evaluation.reporting.numbers import count, fixed, interval, signed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import MAIN_METRICS
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.compute.report import collect
from subgraft.pipeline.measurements.directions import mean_score, tested_directions

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Outcome:
    """The report's data, the advice, and the advised system's best seed on dev, None if no training improved it.

    untrained: A line for each system that finetuning did not improve under some seeds.
    """

    data: ReportData
    advice: Advice
    advised: Finetuned | None
    untrained: tuple[str, ...] = ()

    @classmethod
    def read(cls, pipeline: Pipeline, store: Store) -> Self:
        """Read it from a store with the experiment's report and all its inputs."""
        report = pipeline.report
        data = collect(report.stage, {role: store.path(step) for role, step in report.inputs.items()})
        by_name = {system.name: system for system in summarise(data)}
        tokens = {name: system.tokens_per_sentence for name, system in by_name.items()}

        def compared(name: str) -> dict[str, Comparison | None]:
            return {metric: by_name[name].metrics[metric].comparison for metric in MAIN_METRICS}

        return cls._of(data, [Finetuned.read(steps, store) for steps in pipeline.systems], tokens, compared)

    @classmethod
    def _of(
        cls,
        data: ReportData,
        finetuned: Sequence[Finetuned],
        tokens: Mapping[str, float],
        compared: Callable[[str], Mapping[str, Comparison | None]],
        segment: str = "a target sentence",
    ) -> Self:
        """The outcome by the systems' tokens of a segment, and by each metric's comparison of a system with the old."""
        assert data.baseline is not None
        candidate = _best_on_dev([model for model in finetuned if model.steps.system.name != data.baseline])
        old, own = (Contender(name, tokens[name]) for name in (data.baseline, candidate))
        comparisons = {
            metric: comparison for metric, comparison in compared(candidate).items() if comparison is not None
        }
        advice = with_direction_means(advise(old, own, comparisons, segment), data, old.name, own.name)
        by_system = {
            name: [each for each in finetuned if each.steps.system.name == name] for name in (old.name, own.name)
        }
        untrained = tuple(filter(None, map(untrained_in_words, by_system.values())))
        return cls(data, *trained_advice(advice, by_system), untrained)

    def table(self) -> Table:
        """Quality with intervals and cost per sentence; the caption has remarks on seeds and unknown characters."""
        from rich.box import SIMPLE_HEAD

        from subgraft.base.terminal import Sheet

        sentences, seeds = count(len(self.data.references)), len(self.data.seeds)
        seeds_note = f"means over {seeds} seeds" if seeds > 1 else "one seed"
        caption = f"{sentences} test sentences, {seeds_note}, 95 % intervals; bits per character of dev; "
        caption += f"tokens of a target sentence{caption_remarks(self.data, compared_seeds(self.data))}"
        sheet = Sheet(caption=caption, caption_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        # In two lines, for a terminal of eighty columns.
        for heading in ("", *MAIN_METRICS, "bits/\nchar", "tokens/\nsent.", "s/\nsent."):
            sheet.add_column(heading, justify="right" if sheet.columns else "left", no_wrap=True)
        for system in summarise(self.data):
            sheet.add_row(*_cells(system))
        return sheet

    def rows(self) -> list[dict[str, object]]:
        """The comparison as records: one for each system, means over seeds."""
        return [
            {
                "system": system.name,
                **{name: score.mean for name, score in system.metrics.items()},
                "bits per character": system.bits.selected,
                "tokens per sentence": system.tokens_per_sentence,
                "sentences per second": system.sentences_per_second,
            }
            for system in summarise(self.data)
        ]


def _cells(system: SystemSummary) -> list[str]:
    scores = (system.metrics[name] for name in MAIN_METRICS)
    return [
        system.name,
        *(f"{fixed(score.mean)} {interval(score.interval)}" for score in scores),
        fixed(system.bits.selected, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(1 / system.sentences_per_second, 3),
    ]


def _best_on_dev(finetuned: Sequence[Finetuned]) -> str:
    """The system with the best mean over its seeds on dev."""
    scores: dict[str, list[float]] = {}
    for model in finetuned:
        scores.setdefault(model.steps.system.name, []).append(model.weights.signed_value)
    return max(scores, key=lambda name: fmean(scores[name]))


def untrained_in_words(models: Sequence[Finetuned]) -> str:
    """What finetuning did not improve of a system's models, in one line; empty if it improved all."""
    untrained = [model for model in models if not model.is_trained]
    if not untrained:
        return ""
    name, seeds = models[0].steps.system.name, ", ".join(str(model.steps.seed) for model in untrained)
    return f"{name} learnt nothing under seed {seeds}: dev is best before training, {_dev(untrained)}"


def _dev(models: Sequence[Finetuned]) -> str:
    """The mean dev score in words."""
    return f"{models[0].weights.score} {fixed(fmean(model.weights.value for model in models))}"


def trained_advice(advice: Advice, finetuned: Mapping[str, Sequence[Finetuned]]) -> tuple[Advice, Finetuned | None]:
    """The advice about trained models alone, and the best one of them on dev; None if there is none to advise.

    Where finetuning did not improve the advised system, the other one takes its place if it is better on dev.
    """
    chosen = Selection.of(finetuned[advice.system]).chosen
    if chosen is not None:
        return advice, chosen
    untrained = finetuned[advice.system]
    (other,) = (models for name, models in finetuned.items() if name != advice.system)
    chosen = Selection.of(other).chosen
    if chosen is None or chosen.weights.signed_value <= max(model.weights.signed_value for model in untrained):
        sentence = (
            f"Take neither model, and train longer: no finetuning is better on dev than {advice.system} before any "
            f"training ({_dev(untrained)}). Of the test set: {advice.sentence}"
        )
        return Advice(advice.system, sentence), None
    name = chosen.steps.system.name
    sentence = (
        f"Take {name} ({chosen.weights.score} {fixed(chosen.weights.value)} on dev), as {advice.system} learnt nothing "
        f"({_dev(untrained)}). Of the test set: {advice.sentence}"
    )
    return Advice(name, sentence), chosen


# The advice in one sentence, by the report's rules for differences.


@dataclass(frozen=True)
class Advice:
    """The advised system, and a sentence with the reason."""

    system: str
    sentence: str


@dataclass(frozen=True)
class Contender:
    """A system, and the mean number of its tokens per target sentence."""

    name: str
    tokens_per_sentence: float


def advise(
    old: Contender, own: Contender, compared: Mapping[str, Comparison], segment: str = "a target sentence"
) -> Advice:
    """Whether the new vocabulary should replace the old one.

    It should if at least one metric is significantly higher and none is significantly lower. Without a significant
    difference the old vocabulary stays, because then nothing else has to change.

    Args:
        old: The system with the old vocabulary.
        own: The system with the new vocabulary.
        compared: The new vocabulary against the old one, by metric.
        segment: The unit of `tokens_per_sentence`, in words.
    """
    better, worse = (side in map(_significant_sign, compared.values()) for side in (1, -1))
    advised = own if better and not worse else old
    tokens = f"{segment} takes {fixed(own.tokens_per_sentence, 1)} tokens of the own vocabulary, "
    tokens += f"{fixed(old.tokens_per_sentence, 1)} of the old one"
    sentence = f"{_verdict(better, worse)}: {_differences(compared)}; {tokens}."
    return Advice(advised.name, sentence + _seed_caveat(compared))


def with_direction_means(advice: Advice, data: ReportData, old: str, own: str) -> Advice:
    """The advice, which is about the first direction, with the means over all directions.

    The own vocabulary is not advised if a mean is lower with it.
    """
    names = tested_directions(data)
    if len(names) < 2:
        return advice
    means = {metric: [_mean(data, system, names, metric) for system in (own, old)] for metric in MAIN_METRICS}
    mean_texts = "; ".join(
        f"{name} {fixed(with_own)} and {fixed(with_old)}" for name, (with_own, with_old) in means.items()
    )
    sentence = f"{advice.sentence} That is {names[0]}. Means of {len(names)} directions with own and old: {mean_texts}."
    if advice.system == own and any(with_own < with_old for with_own, with_old in means.values()):
        return Advice(old, f"{sentence} So keep the old vocabulary.")
    return Advice(advice.system, sentence)


def _mean(data: ReportData, system: str, directions: Sequence[str], metric: str) -> float:
    return fmean(mean_score(data, system, name, metric) or 0.0 for name in directions)


def _significant_sign(comparison: Comparison) -> int:
    """1 if significantly higher, -1 if significantly lower, else 0."""
    if comparison.p_value >= LEVEL:
        return 0
    return 1 if comparison.difference > 0 else -1


def _verdict(better: bool, worse: bool) -> str:
    if better and not worse:
        return "Take the model with a vocabulary of its own"
    if worse and not better:
        return "Keep the old vocabulary, as scores with a new one are lower"
    if worse:
        return "Keep the old vocabulary, as the scores contradict each other"
    return "Keep the old vocabulary, as quality does not differ significantly"


def _differences(compared: Mapping[str, Comparison]) -> str:
    """The new vocabulary's difference from the old one in every metric."""
    parts = (
        f"{name} {signed(comparison.difference)} {interval(comparison.interval)}, {verdict(comparison)}"
        for name, comparison in compared.items()
    )
    return "; ".join(parts)


def _seed_caveat(compared: Mapping[str, Comparison]) -> str:
    """A caveat if there are too few seeds."""
    seeds = min((comparison.seeds for comparison in compared.values()), default=FEWEST_SEEDS)
    if seeds >= FEWEST_SEEDS:
        return ""
    return f" Whether other seeds would agree is not known: that takes {FEWEST_SEEDS}, as a fit has that is not quick."
