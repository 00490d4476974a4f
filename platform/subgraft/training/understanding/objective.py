"""Trains a model with a head on the labelled examples of a task, and computes its dev scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.config.heads import BilstmSettings, SanSettings
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, Precision
from subgraft.data.text.batches import BatchPlan
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import with_head
from subgraft.modeling.precision import autocast
from subgraft.modeling.sides import side_names
from subgraft.training.objectives.compute.interface import ObjectiveInputs, selected_examples
from subgraft.training.objectives.compute.whole_examples import BATCH_TOKENS
from subgraft.training.objectives.labelled import AnyLabelledSettings
from subgraft.training.understanding.inputs import LabelledBatch, TextEncoder, costs_of
from subgraft.training.understanding.registry import TASK_CLASSES, record_task
from subgraft.training.understanding.task import LabelledTask, Split


def task_of(settings: AnyLabelledSettings, corpus: Corpus) -> LabelledTask:
    """The task with the labels of a corpus."""
    return TASK_CLASSES[settings.task].of(corpus).judged_by(settings.labels, str(corpus.directory))


def with_task_head(
    bundle: Bundle,
    settings: AnyLabelledSettings,
    corpus: Corpus,
    seed: int,
    longest: int | None = None,
) -> Bundle:
    """The model with the head of a task, drawn from the seed. longest: the limit of inputs in tokens."""
    return bundle_with_head(bundle, settings.task, task_of(settings, corpus), seed, longest, settings.labels.head)


def bundle_with_head(
    bundle: Bundle,
    name: str,
    task: LabelledTask,
    seed: int,
    longest: int | None = None,
    own: SanSettings | BilstmSettings | None = None,
) -> Bundle:
    """The same for a task with known labels.

    Args:
        bundle: the pretrained model.
        name: the name of the task in configurations.
        task: the task.
        seed: the seed of the head's weights.
        longest: the maximum length of inputs in tokens.
        own: the settings of a head that transformers has no class for.
    """
    padding = bundle.padding[0]
    model = with_head(
        bundle.model, task.head, task.outputs, seed, problem_type=task.problem_type, padding_id=padding, own=own
    )
    record_task(model, name, task, longest)
    return replace(bundle, model=model)


class LabelLoss(nn.Module):
    """The loss of a task's labels, summed over the predictions of a batch."""

    def __init__(self, model: PreTrainedModel, task: LabelledTask, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self._task, self._label_smoothing = task, label_smoothing

    def forward(self, batch: LabelledBatch) -> dict[str, Tensor]:
        logits = self._task.logits(self.model, batch)
        return {"loss": self._task.loss(logits, batch, self._label_smoothing)}


class LabelledExamples:
    """The labelled training examples of a task.

    lengths: the cost of each example [n].  most_rows: the maximum number of rows of an example.  truncated: the number
    of examples with a truncated text.
    """

    def __init__(self, settings: AnyLabelledSettings, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        corpus = request.corpus
        self._task, self._corpus, self._request, self._training = task_of(settings, corpus), corpus, request, training
        self._encoder = TextEncoder.of(request.bundle, request.languages, training.max_length)
        split = self._task.split(corpus, "train", self._encoder)
        selected = selected_examples(len(split.references), training, request.seed)
        examples = split.examples if selected is None else split.examples_of(selected)
        self._examples = [example for example in examples if self._task.is_trainable(example)]
        if not self._examples:
            raise UserError("there is no labelled example to train on", where=str(corpus.directory))
        self.lengths = costs_of(self._examples, training.batch_unit)
        self.most_rows = max(len(example.rows) for example in self._examples)
        self.truncated = split.truncated

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        """All texts, as those of the first side: one vocabulary reads them."""
        names = [field.name for field in self._corpus.fields if field.kind == "text"]
        lines = chain.from_iterable(self._corpus.lines("train", name) for name in names)
        sides: tuple[SideName, ...] = side_names(self._request.bundle.model)
        return {sides[0]: lines, **dict.fromkeys(sides[1:], ())}

    def batch(self, indices: np.ndarray, epoch: int) -> LabelledBatch:
        del epoch
        return self._task.collate([self._examples[int(index)] for index in indices], self._encoder.padding)

    def loss(self, bundle: Bundle) -> LabelLoss:
        return LabelLoss(bundle.model, self._task, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        """The task's main metric as `score`, and the mean loss in `nats`, on the first examples of dev."""
        split = self._task.split(self._corpus, "dev", self._encoder, self._training.dev_sentences)
        precision = self._training.precision

        def scores() -> dict[str, float]:
            outputs = head_outputs(bundle.model, self._task, split, self._encoder.padding, precision)
            statistics = self._task.statistics(self._task.predictions(outputs.by_example, split))
            return {"score": self._task.score(statistics), "nats": outputs.nats}

        return scores


class HeadOutputs(NamedTuple):
    """by_example: the logits of each example.  nats: the mean loss of a prediction; 0 without labels."""

    by_example: list[FloatArray]
    nats: float


@torch.inference_mode()
def head_outputs(
    model: PreTrainedModel,
    task: LabelledTask,
    split: Split,
    padding: int,
    precision: Precision = "fp32",
    progress: ProgressCallback | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> HeadOutputs:
    """The outputs of a model for the examples of a split, computed in batches of similar lengths."""
    device = next(model.parameters()).device
    was_training = model.training
    model.train(False)
    lengths = costs_of(split.examples)
    outputs = list[FloatArray | None]([None] * len(split.examples))
    total, counted, done = 0.0, 0, 0
    for indices in BatchPlan(lengths, max(batch_tokens, int(lengths.max())), seed=0).epoch(0):
        batch = task.collate([split.examples[int(index)] for index in indices], padding).to(device)
        with autocast(device, precision):
            logits = task.logits(model, batch)
        if split.references is not None:
            total, counted = total + float(task.loss(logits, batch)), counted + batch.counts["loss"]
        for index, example_outputs in zip(indices.tolist(), task.by_example(logits, batch), strict=True):
            outputs[index] = example_outputs
        done += len(indices)
        if progress is not None:
            progress(done, len(outputs), "examples")
    model.train(was_training)
    return HeadOutputs(
        [example_outputs for example_outputs in outputs if example_outputs is not None], total / max(1, counted)
    )
