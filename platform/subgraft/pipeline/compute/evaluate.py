"""FinetunedModel and Corpus → Evaluation: translations of the test set, their scores, calibration, speed and size.

A search measures its trials with the same stage, on the dev set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.evaluation import MeasurementSettings
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.calibration import Calibration, inference_calibration
from subgraft.evaluation.metrics.token_classes import BitsByClass, token_classes
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.artifacts import LIKELIHOOD
from subgraft.pipeline.compute import chat, continuation, documents, sourced, understanding
from subgraft.pipeline.compute.measurements import (
    Texts,
    measure_length,
    output_counts,
    output_language,
    score_texts,
    search_speed,
    searcher,
    warm_up,
    write_texts,
)
from subgraft.pipeline.stages.evaluation import EvaluateStage, LikelihoodStage
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.translation import reference_nats
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary


def evaluate_model(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    return MEASUREMENTS[stage.objective.kind](stage, inputs, out, context)


def _evaluate_translation(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    if stage.evaluation.documents:
        return documents.measure(stage, inputs, out, context)
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    pairs = list(corpus.pairs(stage.split))[: settings.test_sentences]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    translate = searcher(bundle, stage.languages, settings)
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
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    return {
        **{name: score.value for name, score in scores.items()},
        **({"inference_ece": calibration.error} if calibration else {}),
        **({"sentences_per_second": speed.median} if speed else {}),
        "characters_per_token": length["characters_per_token"],
        **counts,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": ["evaluation.json"],
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


def measure_likelihood(stage: LikelihoodStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Bits per character of the test references, by how many tokens of each are new.

    Inputs: `model`, `corpus`, the task's `vocabulary`, and `upstream`, the model whose decoder lacks new tokens.
    """
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    upstream = load_tokenizers(inputs["upstream"])["decoder"]
    downstream = Tokenizer.load(inputs["vocabulary"])
    classes = token_classes(downstream, upstream, corpus.lines("train", "target"))
    same = bundle.decoder.fingerprint == downstream.fingerprint
    own_classes = classes if same else token_classes(bundle.decoder, upstream, corpus.lines("train", "target"))
    pairs = list(corpus.pairs("test"))[: stage.test_sentences]
    bundle.model.to(device())  # type: ignore[arg-type]
    nats = dict(sorted(reference_nats(bundle, pairs, stage.languages, context.progress)))
    if not nats:
        raise UserError(f"no test reference fits into the {bundle.max_positions} tokens that the model takes")
    sums = BitsByClass((bundle.decoder, own_classes), upstream, (downstream, classes))
    sums.add([pairs[index][1] for index in nats], list(nats.values()))
    likelihood = sums.result(left_out=len(pairs) - len(nats))
    record = json.dumps(likelihood.to_json(), ensure_ascii=False, indent=1)
    (out / LIKELIHOOD).write_text(record + "\n", encoding="utf-8")
    return {
        "test_bits_per_character": likelihood.bits_per_character,
        "references_left_out": likelihood.left_out,
        "artifacts": [LIKELIHOOD],
    }


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
