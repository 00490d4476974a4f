"""Measurements shared by evaluations: speed and unfinished outputs of searches, tokens, scores and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import MetricName
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.evaluation.metrics.scores import FURTHER_METRICS, METRICS, Score
from subgraft.evaluation.metrics.sentence_statistics import (
    corpus_score,
    plugin_metric,
    plugin_score,
    plugin_statistics,
    sentence_statistics,
)
from subgraft.evaluation.metrics.speed import Speed, measure_speed, speed_of_pass
from subgraft.evaluation.metrics.untranslated import LanguageIdentifier
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.exporting.llama_cpp import LlamaCppContinuer
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.ctranslate2_search import FastContinuer, FastTranslator
from subgraft.modeling.inference.translate import Translator, translator_of
from subgraft.pipeline.artifacts import SPELLED, STATISTICS
from subgraft.pipeline.stages.evaluation import LANGUAGE_TEXT
from subgraft.training.context import Json
from subgraft.training.setup import device
from subgraft.training.stage import Inputs

Searcher: TypeAlias = Translator | Continuer | LlamaCppContinuer


def measure_length(bundle: Bundle, references: Sequence[str]) -> dict[str, float]:
    """Mean tokens per reference, with the end of sentence, and mean characters per token, without it."""
    tokens = sum(map(len, bundle.decoder.encode_batch(references)))
    return {
        "tokens_per_sentence": tokens / len(references) + 1,
        "characters_per_token": count_characters(references) / max(1, tokens),
    }


def write_texts(out: Path, **texts: Sequence[str]) -> None:
    """Write each list of texts to {name}.txt, one text a line."""
    for name, lines in texts.items():
        (out / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def warm_up(write: Searcher, texts: Sequence[Any], settings: MeasurementSettings) -> None:
    """Warm up before a timed pass."""
    if settings.speed_measured == "in-translation":
        write(texts[:1])


def output_counts(write: Searcher) -> dict[str, Json]:
    """The numbers of unfinished outputs of the last call, and of sentences that CTranslate2 left to transformers."""
    searched_again = {"searched_again": write.again} if isinstance(write, FastTranslator | FastContinuer) else {}
    return {"cut_outputs": write.unfinished, **searched_again}


def search_speed(write: Searcher, texts: Sequence[Any], settings: MeasurementSettings) -> Speed:
    """The speed of the last call, which was for all texts, or of additional calls for the first texts.

    Sentences that CTranslate2 leaves to transformers do not count in its speed.
    """
    if settings.speed_measured == "in-translation":
        return speed_of_pass(len(texts), write.seconds, settings.batch_size)
    torch.manual_seed(0)
    if isinstance(write, FastTranslator | FastContinuer):
        write.completes = False
    return measure_speed(
        lambda batch: write(batch, settings.batch_size),
        texts[: settings.speed_sentences],
        batch_size=settings.batch_size,
        repeats=settings.speed_repeats,
    )


class Texts(NamedTuple):
    """The texts to score."""

    sources: Sequence[str]
    hypotheses: Sequence[str]
    references: Sequence[str]
    language: str


def score_texts(
    texts: Texts,
    additional: Sequence[str],
    spelled: NDArray[np.bool_],
    out: Path,
    metrics: Sequence[MetricName] = METRICS,
) -> dict[str, Score]:
    """Score texts, and save the sentence statistics for resampling in `out`.

    Args:
        additional: Names of additional metrics, which may be those of plugins.
        spelled: Whether each sentence has no unknown token [n], saved with the statistics.
    """
    _, hypotheses, references, language = texts
    all_metrics = (*metrics, *(metric for metric in FURTHER_METRICS if metric in additional))
    statistics = {metric: sentence_statistics(metric, hypotheses, references, language) for metric in all_metrics}
    plugins = {name: plugin_metric(name) for name in additional if name not in FURTHER_METRICS}
    plugin_counts = {name: plugin_statistics(metric, *texts) for name, metric in plugins.items()}
    all_counts = {**{str(metric): counts for metric, counts in statistics.items()}, **plugin_counts}
    save_file({**all_counts, SPELLED: spelled}, out / STATISTICS)
    scores = {str(metric): corpus_score(metric, counts, language) for metric, counts in statistics.items()}
    return scores | {name: plugin_score(metric, plugin_counts[name]) for name, metric in plugins.items()}


def output_language(inputs: Inputs, hypotheses: Sequence[str], target: str) -> dict[str, Json]:
    """The share of outputs in each language; empty unless the inputs have text of several languages with `target`."""
    roles = sorted(role for role in inputs if role.startswith(LANGUAGE_TEXT))
    identify = _identifier(*(inputs[role] for role in roles))
    if identify is None or target not in identify.languages:
        return {}
    return {"output_language": identify.shares(hypotheses)}


@lru_cache(maxsize=1)
def _identifier(*corpora: Path) -> LanguageIdentifier | None:
    """The identifier, which a process trains once for all evaluations of an experiment: artifacts do not change."""
    return LanguageIdentifier.of(map(Corpus.open, corpora))


def translator(
    bundle: Bundle, languages: Languages | None, settings: MeasurementSettings, kind: type[Translator] = Translator
) -> Translator:
    """Beam search with the settings of the evaluation, on the GPU where there is one."""
    bundle.model.to(device())  # type: ignore[arg-type]
    return translator_of(bundle, languages, kind, beam=settings.beam, max_length_ratio=settings.max_length_ratio)


def translator_by_engine(bundle: Bundle, languages: Languages | None, settings: MeasurementSettings) -> Translator:
    """A translator with the configured engine. Raises UserError for one that does not translate."""
    if settings.engine == "llamacpp":
        raise UserError("llama.cpp continues texts, and this model has an encoder", hint="Leave the engine out.")
    if settings.engine == "transformers":
        return translator(bundle, languages, settings)
    bundle.model.to(device())  # type: ignore[arg-type]
    return fast_translator(bundle, languages, beam=settings.beam, max_length_ratio=settings.max_length_ratio)
