"""The metrics of text: BLEU, chrF and TER through sacrebleu, ROUGE, METEOR and CIDEr, each with its signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias, get_args

from subgraft.base.errors import UserError
from subgraft.config.settings_base import FurtherMetricName, MetricName
from subgraft.evaluation.metrics import meteor, overlap
from subgraft.evaluation.metrics.metric_words import is_chinese

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

AnyMetricName: TypeAlias = MetricName | FurtherMetricName
METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
# TER counts edits: of two systems, the one with the lower score is the better one.
LOWER_IS_BETTER: frozenset[MetricName] = frozenset({"TER"})
FURTHER_METRICS: tuple[FurtherMetricName, ...] = get_args(FurtherMetricName)


def _map_sentences(
    score: Callable[[str, str, str], float],
) -> Callable[[Sequence[str], Sequence[str], str], list[float]]:
    """Lift a sentence score to lists of sentences."""
    return lambda hypotheses, references, language: [
        score(output, reference, language) for output, reference in zip(hypotheses, references, strict=True)
    ]


@dataclass(frozen=True)
class SentenceMetric:
    """A metric whose corpus score is the mean of its sentences' scores.

    scores: of hypotheses and references in a language, each in 0 to 1 (CIDEr: 0 to 10).
    signature: the settings that it scores under in a language.
    """

    scores: Callable[[Sequence[str], Sequence[str], str], list[float]]
    signature: Callable[[str], str]


# To add a metric, write its module, add an entry here, and add its name to the settings' `FurtherMetricName`.
SENTENCE_METRICS: Mapping[str, SentenceMetric] = {
    "ROUGE-1": SentenceMetric(
        _map_sentences(partial(overlap.sentence_rouge_ngrams, n=1)), overlap.rouge_ngram_signature
    ),
    "ROUGE-2": SentenceMetric(
        _map_sentences(partial(overlap.sentence_rouge_ngrams, n=2)), overlap.rouge_ngram_signature
    ),
    "ROUGE-L": SentenceMetric(_map_sentences(overlap.sentence_rouge), overlap.rouge_signature),
    "METEOR": SentenceMetric(_map_sentences(meteor.sentence_meteor), meteor.signature),
    "CIDEr": SentenceMetric(overlap.sentence_ciders, overlap.cider_signature),
}


@dataclass(frozen=True)
class Score:
    """A corpus score in points (0 to 100; TER may exceed 100, CIDEr ends at 1000) and its signature."""

    name: str
    value: float
    signature: str


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], language: str, metrics: Sequence[AnyMetricName] = METRICS
) -> dict[str, Score]:
    """Score a test set, one reference per segment.

    Args:
        hypotheses: n detokenised outputs.
        references: n detokenised references.
        language: the target language ("fr", "zh", "zh_CN" …); it chooses tokenizers and METEOR's stemmer.
        metrics: the metrics to compute; TER and METEOR take seconds.
    Raises:
        UserError: there is nothing to score, or the counts differ.
    """
    check_parallel(hypotheses, references)
    return {name: _corpus_score(name, hypotheses, references, language) for name in metrics}


def _corpus_score(name: AnyMetricName, hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    if name in SENTENCE_METRICS:
        value = 100 * fmean(SENTENCE_METRICS[name].scores(hypotheses, references, language))
        return Score(name, value, signature(name, language))
    metric = sacrebleu_metric(name, language)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))


def sacrebleu_metric(name: AnyMetricName, language: str) -> BLEU | CHRF | TER:
    """BLEU, chrF or TER with sacrebleu's defaults: TER is uncased, the others are cased.

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


def signature(name: AnyMetricName, language: str) -> str:
    """The settings that a metric scores under, with sacrebleu's version where it is sacrebleu's."""
    if name in SENTENCE_METRICS:
        return SENTENCE_METRICS[name].signature(language)
    metric = sacrebleu_metric(name, language)
    metric.num_refs = 1  # set by scoring, and part of the signature
    return str(metric.get_signature())


_DOCUMENTS_HINT = "the two must have as many documents, with blank lines between them"


def check_parallel(hypotheses: Sized, references: Sized, where: str = "", kind: str = "hypotheses") -> None:
    """Raise UserError unless there are as many hypotheses (or of that kind) as references, and at least one."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} {kind} but {len(references)} references",
            where=where,
            hint=_DOCUMENTS_HINT if kind == "documents" else "Line N of one must belong to line N of the other.",
        )
    if len(references) == 0:
        raise UserError(f"there is nothing to score: no {kind} and no references", where=where)
