"""Scores of a model that writes for a source: what it wrote, and whether it finds the source of a text among others.

Each has statistics for resampling, so that reports show intervals.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from subgraft.config.evaluation import RankingSettings
from subgraft.evaluation.metrics import conditional_generation
from subgraft.evaluation.metrics.conditional_generation import TextClassifier, distinct
from subgraft.evaluation.metrics.metric_words import is_chinese
from subgraft.evaluation.metrics.scores import AnyMetricName, Score
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, corpus_score, sentence_statistics
from subgraft.modeling.bundle import Bundle
from subgraft.training.context import Context, Json
from subgraft.training.objectives.conditioned import sourced_nats

# Of what was written for sources that have a text of their own each.
OVERLAP: tuple[AnyMetricName, ...] = ("BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "CIDEr")
ADHERENCE, ACCURACY, RANKING, EXACT = "adherence", "classifier accuracy", "prompt ranking", "exact match"
SAVED = "bits saved"
_SHARES = (ADHERENCE, ACCURACY, RANKING, EXACT, "distinct-1", "distinct-2")


@dataclass(frozen=True)
class Scored:
    """A score with statistics of each text [n, k] (`metrics.sentence_statistics`), None if it is of the corpus."""

    score: Score
    statistics: FloatArray | None = None


@dataclass(frozen=True)
class Texts:
    """n texts with their encoded sources; equal sources have equal `keys`, `separator` is the token between lines."""

    lines: Sequence[str]
    sources: Sequence[np.ndarray]
    keys: Sequence[Hashable]
    separator: int


def ranked(bundle: Bundle, texts: Texts, settings: RankingSettings, context: Context) -> list[Scored]:
    """The share of texts that are likelier given their own source than given others; texts that do not fit are omitted.

    Empty if the sources do not differ, or no text fits.
    """
    if len(set(texts.keys)) < 2:
        return []
    chosen = conditional_generation.candidates(texts.keys, settings.sources, settings.seed, settings.texts)
    count = chosen.shape[1]
    lines = [texts.lines[own] for own in chosen[:, 0].tolist() for _ in range(count)]
    nats = np.full(len(lines), np.nan)
    encoded = [texts.sources[place] for place in chosen.ravel().tolist()]
    for place, of_tokens in sourced_nats(bundle, lines, encoded, texts.separator, context.progress):
        nats[place] = of_tokens.sum()
    table = nats.reshape(chosen.shape)
    found = conditional_generation.ranked_first(table[~np.isnan(table).any(axis=1)])
    signature = f"candidates:{count}|chance:{100 / count:.1f}|texts:{len(found)}|seed:{settings.seed}"
    return [share(RANKING, found, signature)] if len(found) else []


def adherence(judge: TextClassifier, written: Sequence[str], labels: Sequence[str]) -> Scored:
    """The share of texts that the classifier assigns to their class."""
    return share(ADHERENCE, judge.right(written, labels), _classifier())


def accuracy(judge: TextClassifier, lines: Sequence[str], labels: Sequence[str]) -> Scored:
    """The same for human text, which shows how reliable the classifier is."""
    return share(ACCURACY, judge.right(lines, labels), _classifier())


def saved(own: NDArray[np.float64], others: NDArray[np.float64], characters: NDArray[np.float64]) -> Scored:
    """The bits per character that the own source saves compared with another one; 0 if the model ignores its source."""
    statistics = np.stack([others - own, characters], axis=1)
    return Scored(Score(SAVED, float(statistics[:, 0].sum() / characters.sum()), "bits-per-character"), statistics)


def exact(written: Sequence[str], references: Sequence[str]) -> Scored:
    """The share of texts that are their references, character by character."""
    same = [one == other for one, other in zip(written, references, strict=True)]
    return share(EXACT, np.array(same, dtype=np.float64), "nrefs:1|case:mixed")


def overlap(written: Sequence[str], references: Sequence[str], language: str) -> list[Scored]:
    """Overlap of the texts with their references."""
    found = []
    for metric in OVERLAP:
        statistics = sentence_statistics(metric, written, references, language)
        found.append(Scored(corpus_score(metric, statistics, language), statistics))
    return found


def variety(written: Sequence[str], language: str) -> list[Scored]:
    """The diversity of the texts: distinct words and pairs of words."""
    tokenizer = "zh" if is_chinese(language) else "13a"
    return [
        Scored(Score(f"distinct-{n}", 100 * distinct(written, language, n), f"case:lc|tok:{tokenizer}|n:{n}"))
        for n in (1, 2)
    ]


def share(name: str, hits: NDArray[np.float64], signature: str) -> Scored:
    """A score in points, from one number in 0 to 1 per text."""
    statistics = np.stack([100.0 * hits, np.ones(len(hits))], axis=1)
    return Scored(Score(name, float(100 * hits.mean()), f"{signature}|corpus:mean-of-texts"), statistics)


def figures(scored: Sequence[Scored]) -> dict[str, Json]:
    """Figures for records and MLflow: shares in 0 to 1, other scores in their own unit."""
    shares = {each.score.name: each.score.value / 100 for each in scored if each.score.name in _SHARES}
    others = {each.score.name: each.score.value for each in scored if each.score.name not in shares}
    return {
        **{name.replace(" ", "_").replace("-", "_"): value for name, value in shares.items()},
        **{name.replace(" ", "_"): value for name, value in others.items()},
    }


def recorded(scored: Sequence[Scored]) -> dict[str, Json]:
    """Scores for an evaluation's file, by name."""
    return {each.score.name: asdict(each.score) for each in scored}


def resampled(scored: Sequence[Scored]) -> Mapping[str, FloatArray]:
    """Statistics of the scores that have them, by name."""
    return {each.score.name: each.statistics for each in scored if each.statistics is not None}


def _classifier() -> str:
    return f"classifier:tfidf+logistic|sklearn:{version('scikit-learn')}"
