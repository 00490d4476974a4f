"""BLEU and chrF through sacrebleu, each with the signature that makes it comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from subgraft.errors import UserError

MetricName = Literal["BLEU", "chrF"]
METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")


@dataclass(frozen=True)
class Score:
    """A corpus score in points (0 to 100) and the sacrebleu signature it was computed under."""

    name: str
    value: float
    signature: str


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], language: str) -> dict[str, Score]:
    """Score a test set, one reference per segment, by every metric of `METRICS`.

    Args:
        hypotheses: n detokenised outputs.
        references: n detokenised references.
        language: the target language ("fr", "zh", "zh_CN" …); it chooses BLEU's tokenizer.

    Raises:
        UserError: there is nothing to score, or the counts differ.
    """
    check_parallel(hypotheses, references)
    scores: dict[str, Score] = {}
    for name in METRICS:
        metric = sacrebleu_metric(name, language)
        value = metric.corpus_score(list(hypotheses), [list(references)]).score
        scores[name] = Score(name, float(value), str(metric.get_signature()))
    return scores


def sacrebleu_metric(name: MetricName, language: str) -> BLEU | CHRF:
    """The metric as it is used everywhere: cased; BLEU tokenises 13a, and `zh` for Chinese."""
    if name == "chrF":
        return CHRF()
    # `force` silences a warning about tokenised input: outputs here are always detokenised.
    return BLEU(tokenize="zh" if _is_chinese(language) else "13a", force=True)


def check_parallel(hypotheses: Sequence[str], references: Sequence[str], where: str = "") -> None:
    """Raise UserError unless there are as many hypotheses as references, and at least one."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but {len(references)} references",
            where=where,
            mend="the two must agree line by line",
        )
    if not references:
        raise UserError("there is nothing to score: no hypotheses and no references", where=where)


def _is_chinese(language: str) -> bool:
    return language.replace("_", "-").split("-")[0].lower() == "zh"
