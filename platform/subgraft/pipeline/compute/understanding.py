"""FinetunedModel and Corpus → Evaluation of a model that predicts labels: scores, calibration, speed and size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.evaluation.metrics.classes import class_calibration, confusion
from subgraft.evaluation.metrics.speed import measure_speed
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.artifacts import CONFIDENCE, EVALUATION, STATISTICS, write_evaluation
from subgraft.pipeline.compute.outputs import write_texts
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.training.context import Context, Json
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary
from subgraft.training.understanding.inputs import LabelledExample, TextEncoder
from subgraft.training.understanding.objective import head_outputs, task_of
from subgraft.training.understanding.task import LabelledTask, Predictions
from subgraft.training.understanding.zero_shot import zero_shot


class _Measurement(NamedTuple):
    """The predictions of a model on a task.

    Attributes:
        nats: The mean loss.
        truncated: The number of truncated inputs.
        timed, predict: Inputs for measuring the speed, and what predicts a batch of them.
    """

    task: LabelledTask
    texts: Sequence[str]
    predictions: Predictions
    nats: float
    truncated: int
    timed: Sequence[Any]
    predict: Callable[[Sequence[Any]], object]


def _predict_with_head(
    stage: EvaluateStage,
    objective: LabelledSettings | LabelledPairsSettings,
    bundle: Bundle,
    corpus: Corpus,
    context: Context,
) -> _Measurement:
    """The predictions of a finetuned model's head."""
    task = task_of(objective, corpus)
    encoder = TextEncoder.of(bundle, stage.languages)
    split = task.split(corpus, stage.split, encoder, stage.evaluation.test_sentences)
    outputs = head_outputs(bundle.model, task, split, encoder.padding, progress=context.progress)

    @torch.inference_mode()
    def predict(examples: Sequence[LabelledExample]) -> Tensor:
        return task.logits(bundle.model, task.collate(examples, encoder.padding).to(device())).cpu()

    predictions = task.predictions(outputs.by_example, split)
    return _Measurement(task, split.texts, predictions, outputs.nats, split.truncated, split.examples, predict)


def _predict_zero_shot(
    stage: EvaluateStage,
    objective: LabelledSettings | LabelledPairsSettings,
    bundle: Bundle,
    corpus: Corpus,
    context: Context,
) -> _Measurement:
    result = zero_shot(
        bundle, objective, corpus, stage.split, stage.evaluation.test_sentences, progress=context.progress
    )
    return _Measurement(
        result.task,
        result.texts,
        result.predictions,
        result.nats,
        result.truncated,
        result.inputs,
        result.classifier.scores,
    )


def measure(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    objective = stage.objective
    assert isinstance(objective, LabelledSettings | LabelledPairsSettings)
    bundle.model.to(device())  # type: ignore[arg-type]
    measured = (_predict_with_head if objective.labels.zero_shot is None else _predict_zero_shot)(
        stage, objective, bundle, corpus, context
    )
    task, predictions = measured.task, measured.predictions
    statistics = task.statistics(predictions)
    confidence = {} if predictions.probabilities is None else {CONFIDENCE: predictions.probabilities.max(axis=1)}
    save_file(
        {name: np.ascontiguousarray(array) for name, array in (statistics | confidence).items()}, out / STATISTICS
    )
    scores = task.scores(statistics)
    write_texts(out, sources=measured.texts, references=predictions.reference_texts, hypotheses=predictions.texts)

    timed = measured.timed[: settings.speed_sentences]
    speed = (
        measure_speed(measured.predict, timed, batch_size=settings.batch_size, repeats=settings.speed_repeats)
        if stage.speed
        else None
    )
    probabilities = predictions.probabilities
    calibration = None if probabilities is None else class_calibration(probabilities, predictions.references)
    result: dict[str, Json] = {
        "scores": {name: asdict(score) for name, score in scores.items()},
        "nats": measured.nats,
        **_lengths(bundle, corpus, stage.split),
        "calibration": asdict(calibration) if calibration else None,
        "confusion": _confusion(task, predictions),
        "speed": asdict(speed) if speed else None,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(measured.texts),
        "cut_inputs": measured.truncated,
        "cut_outputs": 0,
    }
    write_evaluation(result, out)
    return {
        **{name: score.value for name, score in scores.items()},
        "nats": measured.nats,
        **({"calibration_error": calibration.error} if calibration else {}),
        **({"sentences_per_second": speed.median} if speed else {}),
        "cut_inputs": measured.truncated,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": [EVALUATION],
    }


def _lengths(bundle: Bundle, corpus: Corpus, split: str) -> dict[str, Json]:
    """Mean tokens of an example's texts in the model's vocabulary, and characters of a token."""
    names = [field.name for field in corpus.fields if field.kind == "text"]
    lines = [line for name in names for line in corpus.lines(split, name)]
    tokens = sum(map(len, bundle.encoder.encode_batch(lines)))
    return {
        "tokens_per_sentence": tokens / max(1, len(lines) // len(names)),
        "characters_per_token": count_characters(lines) / max(1, tokens),
    }


def _confusion(task: LabelledTask, predictions: Predictions) -> Json:
    """How often each class (row) is predicted as each (column); None where there are no classes."""
    if task.problem_type != "single_label_classification":
        return None
    counts = confusion(predictions.predicted, predictions.references, len(task.labels))
    return {"labels": list(task.labels), "counts": counts.tolist()}
