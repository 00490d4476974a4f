"""The metrics of text: BLEU, chrF and TER through sacrebleu, ROUGE-L and METEOR, each with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from subgraft.config.base import MetricName
from subgraft.errors import UserError
from subgraft.metrics import meteor, rouge
from subgraft.metrics.words import is_chinese

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

SacrebleuName = Literal["BLEU", "chrF", "TER"]
MeanName = Literal["ROUGE-L", "METEOR"]
METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
# TER counts edits: of two systems, the one with the lower score is the better one.
LOWER_IS_BETTER: frozenset[MetricName] = frozenset({"TER"})
# A corpus score of these is the mean of its sentences' scores.
SENTENCE_SCORES = {"ROUGE-L": rouge.sentence_rouge, "METEOR": meteor.sentence_meteor}
SENTENCE_SIGNATURES = {"ROUGE-L": rouge.signature, "METEOR": meteor.signature}


@dataclass(frozen=True)
class Score:
    """A corpus score in points (0 to 100; TER may exceed 100) and the signature it was computed under."""

    name: str
    value: float
    signature: str


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    metrics: Sequence[MetricName] = METRICS,
    where: str = "",
) -> dict[str, Score]:
    """Score a test set, one reference per segment.

    Args:
        hypotheses: n detokenised outputs.
        references: n detokenised references.
        language: the target language ("fr", "zh", "zh_CN" …); it chooses tokenizers and METEOR's stemmer.
        metrics: those that are wanted; TER and METEOR take seconds.
        where: what an error names.

    Raises:
        UserError: there is nothing to score, or the counts differ.
    """
    check_parallel(hypotheses, references, where)
    return {name: _corpus_score(name, hypotheses, references, language) for name in metrics}


def _corpus_score(name: MetricName, hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    if name == "ROUGE-L" or name == "METEOR":
        value = 100 * fmean(sentence_scores(name, hypotheses, references, language))
        return Score(name, value, SENTENCE_SIGNATURES[name](language))
    metric = sacrebleu_metric(name, language)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))


def sentence_scores(name: MeanName, hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[float]:
    """The score of every sentence, in 0 to 1, by a metric that is a mean over sentences."""
    score = SENTENCE_SCORES[name]
    return [score(output, wanted, language) for output, wanted in zip(hypotheses, references, strict=True)]


def sacrebleu_metric(name: SacrebleuName, language: str) -> BLEU | CHRF | TER:
    """The metric as it is used everywhere, by sacrebleu's defaults: TER is uncased, the others cased.

    Chinese has no words between spaces: BLEU tokenises `zh` instead of 13a, and TER counts characters.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "chrF":
        return CHRF()
    if name == "TER":
        return TER(normalized=is_chinese(language), asian_support=is_chinese(language))
    # `force` silences a warning about tokenised input: outputs here are always detokenised.
    return BLEU(tokenize="zh" if is_chinese(language) else "13a", force=True)


def signature(name: MetricName, language: str) -> str:
    """The settings that a metric scores under, with sacrebleu's version where it is sacrebleu's."""
    if name == "ROUGE-L" or name == "METEOR":
        return SENTENCE_SIGNATURES[name](language)
    metric = sacrebleu_metric(name, language)
    metric.num_refs = 1  # set by scoring, and part of the signature
    return str(metric.get_signature())


def check_parallel(
    hypotheses: Sequence[str], references: Sequence[str], where: str = "", kind: str = "hypotheses"
) -> None:
    """Raise UserError unless there are as many hypotheses (or of that kind) as references, and at least one."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} {kind} but {len(references)} references",
            where=where,
            hint="the two must agree line by line",
        )
    if not references:
        raise UserError(f"there is nothing to score: no {kind} and no references", where=where)
