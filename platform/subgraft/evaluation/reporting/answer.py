"""The answer of a comparison: which system to take, by how much it is better, and the tokens that it saves.

A report begins with it, and a run and a fit end with it. The candidate is chosen on dev, and judged on the test set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

from subgraft.evaluation.metrics.significance import LEVEL, Comparison
from subgraft.evaluation.reporting.findings import claim_in_words, on_few_seeds
from subgraft.evaluation.reporting.numbers import count, fixed, interval, percent, signed
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.summary import MetricSummary, mean_on_dev

# A model may have this many bits per character more than the baseline, and is called not worse.
MARGIN = 0.01
# A vocabulary that is not better is worth a change if it saves this share of the tokens.
WORTH_SAVING = 0.05
BITS_PER_CHARACTER = "bits per character"

SCORES_RULE = (
    "The answer is about the system that is best on dev, the baseline aside. It is recommended if one of its main test "
    "scores is better than the baseline's and none is worse (p < 0.05, without a correction, as dev has chosen the "
    "system); without a difference the baseline stays, as nothing has to change then."
)
BITS_RULE = (
    f"The answer is the system with the fewest changed embeddings that is better than the baseline (p < 0.05), or that "
    f"is not worse (its interval ends below +{MARGIN:g} bits per character) and saves {percent(WORTH_SAVING)} of the "
    "tokens; never one that is worse on the other text. If there is none, it is about the one that is best on dev, of "
    f"those that save tokens, if any does. Of the systems that save {percent(WORTH_SAVING)} more than the "
    "answer's, the best on dev is named with its cost."
)


@dataclass(frozen=True)
class Answer:
    """The system to take, None if no finetuning improved one, and a sentence with the reason; remarks qualify it.

    candidate: The system that was compared with the baseline.
    """

    system: str | None
    sentence: str
    remarks: tuple[str, ...] = ()
    candidate: str | None = None

    def __str__(self) -> str:
        return " ".join((self.sentence, *self.remarks))


def answer_by_scores(
    data: ReportData,
    scores: Mapping[str, Mapping[str, MetricSummary]],
    segment: str,
    lower_is_better: Collection[str] = (),
) -> Answer:
    """The answer by one or more scores, by metric and system, as SCORES_RULE has it.

    segment: the unit of tokens per sentence, in words.
    """
    compared = {
        name: {metric: _alone(each) for metric in scores if (each := scores[metric][name].comparison) is not None}
        for name in data.system_names
    }
    candidates = [name for name, comparisons in compared.items() if comparisons]
    if data.baseline is None or not candidates:
        return _uncompared(data, scores)
    candidate = best_on_dev(data, candidates)
    differences = compared[candidate]
    signs = [_sign(one, lower=metric in lower_is_better) for metric, one in differences.items()]
    facts = f"{_differences(differences, 2)}; {_tokens(data, candidate, segment)}"
    name = f"{candidate}, the best other system on dev," if len(candidates) > 1 else candidate
    if 1 in signs and -1 not in signs:
        answer = Answer(candidate, f"Take {candidate}, which scores better than {data.baseline}: {facts}.")
    elif 1 in signs:
        answer = Answer(data.baseline, f"Keep {_old(data)}, as scores of {candidate} contradict each other: {facts}.")
    else:
        why = "scores worse" if -1 in signs else "does not score better"
        answer = Answer(data.baseline, f"Keep {_old(data)}, as {name} {why}: {facts}.")
    seeds = {each: min(one.seeds for one in compared[each].values()) for each in candidates}
    answer = replace(answer, candidate=candidate, remarks=tuple(on_few_seeds(seeds)))
    return _of_trained(data, answer, candidate)


def _uncompared(data: ReportData, scores: Mapping[str, Mapping[str, MetricSummary]], digits: int = 2) -> Answer:
    """The best on dev, where no system is compared with a baseline."""
    best = best_on_dev(data, data.system_names)
    of_best = {metric: by_system[best] for metric, by_system in scores.items()}
    by_metric = (
        f"{metric} {fixed(each.mean, digits)} {interval(each.interval, digits)}" for metric, each in of_best.items()
    )
    why = "no system is the baseline of a comparison" if len(data.system_names) > 1 else "no other system was measured"
    return Answer(best, f"Best on dev is {best}: {' and '.join(by_metric)} on the test set; {why}.")


def _alone(comparison: Comparison) -> Comparison:
    """The comparison without a correction for others; its p-value then agrees with its interval."""
    alone = comparison.p_alone
    return comparison if alone is None else replace(comparison, p_value=alone, p_alone=None)


def _sign(comparison: Comparison, *, lower: bool) -> int:
    """1 if better, -1 if worse, 0 if that is not certain."""
    if comparison.p_value >= LEVEL:
        return 0
    return 1 if (comparison.difference < 0) is lower else -1


def _differences(compared: Mapping[str, Comparison], digits: int) -> str:
    """The differences from the baseline, those with the same claim together."""
    by_claim: dict[str, list[str]] = {}
    for metric, each in compared.items():
        difference = f"{metric} {signed(each.difference, digits)} {interval(each.interval, digits)}"
        by_claim.setdefault(claim_in_words(each), []).append(difference)
    return "; ".join(f"{' and '.join(differences)}, {claim}" for claim, differences in by_claim.items())


def _old(data: ReportData) -> str:
    """The baseline in words."""
    name, size = data.baseline or "", data.vocabularies[0].size
    first = data.results(name)[0]
    if first.transfer is not None or first.vocabulary_size not in (None, size):
        return name
    return "the old vocabulary" if name == "old" else f"the old vocabulary ({name})"


def _tokens(data: ReportData, name: str, segment: str) -> str:
    """How many tokens a system saves compared with the baseline."""
    own, old = (mean_tokens(data, each) for each in (name, data.baseline or name))
    saved = 1 - own / old
    if percent(abs(saved)) == percent(0):
        return f"{segment} takes as many tokens ({fixed(old, 1)})"
    number = f"{percent(abs(saved))} {'fewer' if saved > 0 else 'more'} tokens"
    return f"{segment} takes {number} ({fixed(own, 1)} in place of {fixed(old, 1)})"


def mean_tokens(data: ReportData, name: str) -> float:
    """The tokens of a test segment, as the mean over seeds."""
    return fmean(result.tokens_per_sentence for result in data.results(name))


def best_on_dev(data: ReportData, names: Sequence[str]) -> str:
    """The first of the systems with the best mean dev score."""
    return max(names, key=lambda name: mean_on_dev(data, name))


def _of_trained(data: ReportData, answer: Answer, candidate: str) -> Answer:
    """The answer about trained models alone.

    Where finetuning did not improve the system under any seed, the other one of the two takes its place if it is better
    on dev.
    """
    assert answer.system is not None and data.baseline is not None
    untrained = data.results(answer.system)
    if not all(result.untrained for result in untrained):
        return answer
    other = data.baseline if answer.system == candidate else candidate
    trained = [result for result in data.results(other) if not result.untrained]
    best = max(trained, key=lambda result: result.dev.signed, default=None)
    remarks = (f"Of the test set: {answer.sentence}", *answer.remarks)
    if best is None or best.dev.signed <= max(result.dev.signed for result in untrained):
        sentence = (
            f"Take neither model, and train longer: no finetuning is better on dev than {answer.system} before any "
            f"training ({_dev(untrained)})."
        )
        return replace(answer, system=None, sentence=sentence, remarks=remarks)
    sentence = f"Take {other} ({_dev([best])} on dev), as {answer.system} learnt nothing ({_dev(untrained)})."
    return replace(answer, system=other, sentence=sentence, remarks=remarks)


def _dev(results: Sequence[SystemResult]) -> str:
    """The mean dev score in words."""
    return f"{results[0].dev.name} {fixed(fmean(result.dev.value for result in results))}"


# Language models.


@dataclass(frozen=True)
class Contender:
    """A system against the baseline, on the text and on other text, and the share of tokens that it saves."""

    name: str
    task: Comparison
    other: Comparison | None
    saved: float

    @property
    def is_better(self) -> bool:
        return self.task.difference < 0 and self.task.p_value < LEVEL

    @property
    def is_level(self) -> bool:
        """Whether it is not worse: the interval of the difference ends below MARGIN."""
        return self.task.interval.high <= MARGIN

    @property
    def forgets(self) -> bool:
        """Whether it is worse on the other text."""
        return self.other is not None and self.other.difference > MARGIN and self.other.p_value < LEVEL

    @property
    def is_recommended(self) -> bool:
        return not self.forgets and (self.is_better or (self.is_level and self.saved >= WORTH_SAVING))

    @property
    def objection(self) -> str:
        """Why it is not recommended."""
        if self.forgets and (self.is_better or self.is_level):
            return f"with {self.name} the model becomes worse on the other text"
        if self.is_level:
            return f"{self.name} saves fewer than {percent(WORTH_SAVING)} of the tokens"
        if self.task.interval.low > MARGIN:
            return f"{self.name} is worse"
        return f"it is not certain that {self.name} is at most {MARGIN:g} bits per character worse"

    @property
    def facts(self) -> str:
        difference = f"{signed(self.task.difference, 3)} {interval(self.task.interval, 3)} bits per character"
        if self.other is None:
            return difference
        return f"{difference} (on the other text {signed(self.other.difference, 3)} {interval(self.other.interval, 3)})"


def answer_by_bits(data: ReportData, bits: Mapping[str, MetricSummary], other: Mapping[str, Comparison]) -> Answer:
    """The answer by bits per character of the test text, by system, as BITS_RULE has it.

    other: differences from the baseline on other text, by system, if there is some.
    """
    contenders = [
        Contender(
            name,
            summary.comparison,
            other.get(name),
            1 - mean_tokens(data, name) / mean_tokens(data, data.baseline or name),
        )
        for name, summary in bits.items()
        if summary.comparison is not None
    ]
    if data.baseline is None or not contenders:
        return _uncompared(data, {BITS_PER_CHARACTER: bits}, 3)
    ranked = sorted(contenders, key=lambda each: (_changes(data, each.name), -mean_on_dev(data, each.name)))
    chosen = next((each for each in ranked if each.is_recommended), None)
    seeds = on_few_seeds({each.name: each.task.seeds for each in contenders})
    shorter = [each for each in contenders if each.saved >= WORTH_SAVING]
    if chosen is not None:
        quality = "better" if chosen.is_better else f"not worse (by a margin of {MARGIN:g})"
        tokens = _tokens(data, chosen.name, "a test line")
        sentence = f"Take {chosen.name}, which is {quality} than {data.baseline}: {chosen.facts}; {tokens}."
        cheaper = [each for each in shorter if each.saved - chosen.saved >= WORTH_SAVING and not each.forgets]
        saving = _cost_of_fewer_tokens(data, cheaper)
        answer = Answer(chosen.name, sentence, tuple(filter(None, (saving, *seeds))), chosen.name)
        return _of_trained(data, answer, chosen.name)
    best = max(shorter or contenders, key=lambda each: mean_on_dev(data, each.name))
    sentence = f"Keep {_old(data)}, as {best.objection}: {best.facts}; {_tokens(data, best.name, 'a test line')}."
    level = _level_after(data, best.name, data.baseline)
    answer = Answer(data.baseline, sentence, tuple(filter(None, (level, *seeds))), best.name)
    return _of_trained(data, answer, best.name)


def _cost_of_fewer_tokens(data: ReportData, cheaper: Sequence[Contender]) -> str:
    """What the best on dev of the systems with fewer tokens than the chosen one costs; empty if there is none."""
    if not cheaper:
        return ""
    best = max(cheaper, key=lambda each: mean_on_dev(data, each.name))
    certainty = "" if best.task.p_value < LEVEL else ", a difference that is not certain"
    tokens = _tokens(data, best.name, "a test line")
    return f"If fewer tokens matter more, take {best.name}: {tokens}, at {best.facts}{certainty}."


def _changes(data: ReportData, name: str) -> int:
    """How many embeddings a system drops or initialises."""
    transfer = data.results(name)[0].transfer
    return 0 if transfer is None else data.vocabularies[0].size - transfer.seen + transfer.unseen


def _level_after(data: ReportData, name: str, baseline: str) -> str:
    """After how much text the system would be level on dev if its gap goes on shrinking as it did; empty if unknown."""
    gaps = _gaps(data, name, baseline)
    points = [(log(characters), log(gap)) for characters, gap in gaps.items() if characters and gap > MARGIN]
    if len(points) < 3 or len(points) < len([characters for characters in gaps if characters]):
        return ""
    first, last = points[-3], points[-1]
    slope = (last[1] - first[1]) / (last[0] - first[0])
    (start, *_, end), read = gaps.values(), count(max(gaps))
    shrinking = f"On dev {name} was behind by {fixed(start, 3)} at first and by {fixed(end, 3)} after {read} characters"
    if slope >= -0.1:
        return f"{shrinking}: the gap does not close."
    characters = exp(last[0] + (log(MARGIN) - last[1]) / slope)
    return f"{shrinking}: if it goes on like this, it is level after about {_about(characters)} characters."


def _gaps(data: ReportData, name: str, baseline: str) -> Mapping[int, float]:
    """How many bits per character of dev the system is behind, by characters read; empty if these are not known."""

    def curve(system: str) -> dict[int, float]:
        curves = [result.curve for result in data.results(system)]
        steps = set.intersection(*({point.step for point in curve} for curve in curves))
        bits = {
            step: [point.dev_bits_per_character or 0.0 for curve in curves for point in curve if point.step == step]
            for step in sorted(steps)
        }
        return {step: fmean(values) for step, values in bits.items()}

    old, own = curve(baseline), curve(name)
    characters = data.characters_per_step
    return {step * characters: own[step] - bits for step, bits in old.items() if step in own} if characters else {}


def _about(number: float) -> str:
    """A rough number in words."""
    for unit, size in (("billion", 1e9), ("million", 1e6), ("thousand", 1e3)):
        if number >= size:
            return f"{number / size:.1g} {unit}" if number / size < 10 else f"{number / size:,.0f} {unit}"
    return f"{number:.0f}"
