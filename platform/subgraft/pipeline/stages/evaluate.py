"""FinetunedModel and Corpus → Evaluation: translations of the test set, their scores, calibration, speed and size.

A search measures its trials with the same stage, on the dev set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from subgraft.config.evaluation import MeasurementSettings
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.calibration import Calibration, inference_calibration
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe
from subgraft.pipeline.stages import chat, continuation, documents, sourced, understanding
from subgraft.pipeline.stages.measurements import measure_length, outputs_recorded, search_speed, warm_up, write_texts
from subgraft.pipeline.stages.scoring import Texts, output_language, scores_of, searcher
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.training.context import Context, Json


def evaluate_model(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    return MEASUREMENTS[recipe.objective.kind](recipe, inputs, out, context)


def _of_pairs(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    if recipe.evaluation.documents:
        return documents.measure(recipe, inputs, out, context)
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    pairs = list(corpus.pairs(recipe.split))[: settings.test_sentences]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    translate = searcher(bundle, recipe.languages, settings)
    warm_up(translate, sources, settings)
    hypotheses, calibration = _translations(translate, bundle, sources, references, settings, context)
    written = outputs_recorded(translate) | output_language(inputs, hypotheses, recipe.languages.target)
    speed = search_speed(translate, sources, settings) if recipe.speed else None
    spelled = np.array(spells(bundle.encoder, sources)) & np.array(spells(bundle.decoder, references))
    scores = scores_of(Texts(sources, hypotheses, references, recipe.languages.target), settings.metrics, spelled, out)
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


# How a model is measured, by how the text was learnt.
MEASUREMENTS: Mapping[str, Callable[[EvaluateRecipe, Inputs, Path, Context], dict[str, Json]]] = {
    "translation": _of_pairs,
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
