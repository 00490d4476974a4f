"""FinetunedModel and Corpus → Evaluation: translations of the test set, their scores, calibration, speed and size.

A search measures its trials with the same stage, on the dev set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from subgraft.config.evaluation import MeasurementSettings
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.calibration import Calibration, inference_calibration
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.pipeline.artifacts import EVALUATION, write_evaluation
from subgraft.pipeline.compute import chat, continuation, documents, sourced, understanding
from subgraft.pipeline.compute.outputs import (
    Texts,
    measure_length,
    output_counts,
    output_language,
    score_texts,
    search_speed,
    translator_by_engine,
    warm_up,
    write_texts,
)
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.training.context import Context, Json
from subgraft.training.stage import Inputs, Summary


def evaluate_model(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    return MEASUREMENTS[stage.objective.kind](stage, inputs, out, context)


def _evaluate_translation(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    if stage.evaluation.documents:
        return documents.measure(stage, inputs, out, context)
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    pairs = list(corpus.pairs(stage.split))[: settings.test_sentences]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    translate = translator_by_engine(bundle, stage.languages, settings)
    warm_up(translate, sources, settings)
    hypotheses, calibration = _translate(translate, bundle, sources, references, settings, context)
    counts = output_counts(translate) | output_language(inputs, hypotheses, stage.languages.target)
    speed = search_speed(translate, sources, settings) if stage.speed else None
    spelled = np.array(spells(bundle.encoder, sources)) & np.array(spells(bundle.decoder, references))
    scores = score_texts(Texts(sources, hypotheses, references, stage.languages.target), settings.metrics, spelled, out)
    write_texts(out, sources=sources, references=references, hypotheses=hypotheses)
    length = measure_length(bundle, references)
    result: dict[str, Json] = {
        "scores": {name: asdict(score) for name, score in scores.items()},
        **length,
        "calibration": asdict(calibration) if calibration else None,
        "speed": asdict(speed) if speed else None,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(sources),
        **counts,
        "spelling": {
            "sentences": int(spelled.sum()),
            "source": asdict(spelling(bundle.encoder, sources)),
            "reference": asdict(spelling(bundle.decoder, references)),
        },
    }
    write_evaluation(result, out)
    return {
        **{name: score.value for name, score in scores.items()},
        **({"inference_ece": calibration.error} if calibration else {}),
        **({"sentences_per_second": speed.median} if speed else {}),
        "characters_per_token": length["characters_per_token"],
        **counts,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": [EVALUATION],
    }


def _translate(
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


# The evaluation of a model by the kind of its objective.
MEASUREMENTS: Mapping[str, Callable[[EvaluateStage, Inputs, Path, Context], dict[str, Json]]] = {
    "translation": _evaluate_translation,
    "document-translation": documents.measure,
    "context-translation": documents.measure,
    "causal": continuation.measure,
    "conditioned": sourced.measure,
    "conditioned-on-text": sourced.measure,
    "conditioned-on-features": sourced.measure,
    "chat": chat.measure,
    "labelled": understanding.measure,
    "labelled-pairs": understanding.measure,
}
