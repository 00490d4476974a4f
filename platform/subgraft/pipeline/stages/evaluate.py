"""FinetunedModel and Corpus → Evaluation: translations of the test set, their scores, calibration, speed and size.

A search measures its trials with the same stage, on the dev set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.calibration import Calibration, inference_calibration
from subgraft.evaluation.metrics.plugin_metrics import plugin_metric, plugin_score, plugin_statistics
from subgraft.evaluation.metrics.scores import FURTHER_METRICS, METRICS, Score
from subgraft.evaluation.metrics.sentence_statistics import corpus_score, sentence_statistics
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.inference.translate import Translator
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe
from subgraft.pipeline.stages import chat, continuation, sourced, understanding
from subgraft.pipeline.stages.measurements import measure_length, outputs_recorded, search_speed, warm_up, write_texts
from subgraft.pipeline.stages.stage import SPELLED, STATISTICS, Inputs, Summary
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.training.context import Context, Json
from subgraft.training.setup import device


def evaluate_model(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    return MEASUREMENTS[recipe.objective.kind](recipe, inputs, out, context)


def _of_pairs(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    pairs = list(corpus.pairs(recipe.split))[: settings.test_sentences]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    translate = searcher(bundle, recipe.languages, settings)
    warm_up(translate, sources, settings)
    hypotheses, calibration = _translations(translate, bundle, sources, references, settings, context)
    written = outputs_recorded(translate)
    speed = search_speed(translate, sources, settings) if recipe.speed else None
    spelled = np.array(spells(bundle.encoder, sources)) & np.array(spells(bundle.decoder, references))
    scores = _scores(_Texts(sources, hypotheses, references, recipe.languages.target), settings.metrics, spelled, out)
    write_texts(out, sources=sources, references=references, hypotheses=hypotheses)
    length = measure_length(bundle, references)
    result: dict[str, Json] = {
        "scores": {name: asdict(score) for name, score in scores.items()},
        **length,
        "calibration": asdict(calibration) if calibration else None,
        "speed": asdict(speed) if speed else None,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(sources),
        **written,
        "spelling": {
            "sentences": int(spelled.sum()),
            "source": asdict(spelling(bundle.encoder, sources)),
            "reference": asdict(spelling(bundle.decoder, references)),
        },
    }
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    return {
        **{name: score.value for name, score in scores.items()},
        **({"inference_ece": calibration.error} if calibration else {}),
        **({"sentences_per_second": speed.median} if speed else {}),
        "characters_per_token": length["characters_per_token"],
        **written,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": ["evaluation.json"],
    }


def _translations(
    translate: Translator,
    bundle: Bundle,
    sources: Sequence[str],
    references: Sequence[str],
    settings: MeasurementSettings,
    context: Context,
) -> tuple[list[str], Calibration | None]:
    """Translations and, if configured and anything was generated, their calibration."""
    if not settings.calibration:
        return translate(sources, settings.batch_size, context.progress), None
    outputs = translate.with_probabilities(sources, settings.batch_size, context.progress)
    calibration = inference_calibration(
        [output.tokens for output in outputs],
        [output.probabilities for output in outputs],
        bundle.decoder.encode_batch(references),
    )
    return [output.text for output in outputs], calibration


class _Texts(NamedTuple):
    """The texts to score."""

    sources: Sequence[str]
    hypotheses: Sequence[str]
    references: Sequence[str]
    language: str


def _scores(texts: _Texts, further: Sequence[str], spelled: NDArray[np.bool_], out: Path) -> dict[str, Score]:
    """Scores by every metric; their sentence statistics are saved for resampling.

    `further` are names of additional metrics, some of them from plugins.
    """
    _, hypotheses, references, language = texts
    asked = (*METRICS, *(metric for metric in FURTHER_METRICS if metric in further))
    statistics = {metric: sentence_statistics(metric, hypotheses, references, language) for metric in asked}
    own = {name: plugin_metric(name) for name in further if name not in FURTHER_METRICS}
    own_counts = {name: plugin_statistics(metric, *texts) for name, metric in own.items()}
    counted = {**{str(metric): counts for metric, counts in statistics.items()}, **own_counts}
    save_file({**counted, SPELLED: spelled}, out / STATISTICS)
    scores = {str(metric): corpus_score(metric, counts, language) for metric, counts in statistics.items()}
    return scores | {name: plugin_score(metric, own_counts[name]) for name, metric in own.items()}


def translator(
    bundle: Bundle, languages: Languages | None, settings: MeasurementSettings, kind: type[Translator] = Translator
) -> Translator:
    """Beam search with the settings of the evaluation, on the GPU where there is one."""
    return kind(
        bundle.model.to(device()),  # type: ignore[arg-type]
        bundle.encoder,
        bundle.decoder,
        bundle.sequence_format(languages),
        beam=settings.beam,
        max_length_ratio=settings.max_length_ratio,
        max_positions=bundle.max_positions,
    )


def searcher(bundle: Bundle, languages: Languages | None, settings: MeasurementSettings) -> Translator:
    """A translator with the configured engine."""
    if settings.engine == "transformers":
        return translator(bundle, languages, settings)
    bundle.model.to(device())  # type: ignore[arg-type]
    return fast_translator(bundle, languages, beam=settings.beam, max_length_ratio=settings.max_length_ratio)


# How a model is measured, by how the text was learnt.
MEASUREMENTS: Mapping[str, Callable[[EvaluateRecipe, Inputs, Path, Context], dict[str, Json]]] = {
    "translation": _of_pairs,
    "causal": continuation.measure,
    "conditioned": sourced.measure,
    "conditioned-on-text": sourced.measure,
    "conditioned-on-features": sourced.measure,
    "chat": chat.measure,
    "labelled": understanding.measure,
    "labelled-pairs": understanding.measure,
}
