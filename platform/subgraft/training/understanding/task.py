"""What a task of understanding answers: its head, examples, loss, predictions and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import HeadKind
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.understanding.inputs import (
    LabelledBatch,
    LabelledExample,
    Row,
    TextEncoder,
    collate,
    model_inputs,
)


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for the examples of a split, in their order.

    Attributes:
        predicted, references: As the metrics take them.
        texts: Each prediction in words, and each reference.
        probabilities: Of each class [n, C]; None where no single class is predicted.
    """

    predicted: Any
    references: Any
    texts: Sequence[str]
    reference_texts: Sequence[str]
    probabilities: FloatArray | None = None


@dataclass(frozen=True)
class Split:
    """The examples of a split.

    Attributes:
        examples: One for each that the model reads at once.
        references: The right predictions, in a form that the task defines.
        texts: What was read, in words, one for each reference.
        details: What the task needs to make predictions of the model's outputs.
    """

    examples: list[LabelledExample]
    references: Any
    texts: list[str]
    details: Any = field(default=None, repr=False)

    @property
    def cut(self) -> int:
        """How many examples lack the end of a text, which is too long for the model."""
        return sum(any(row.cut for row in example.rows) for example in self.examples)


class LabelledTask(ABC):
    """A task on the labelled examples of a corpus.

    Attributes:
        head: The kind of the model's head.
        metrics: By name; the first one selects weights on dev.
        problem_type: transformers' setting of the head, which decides its loss.
        labels: The names of the head's outputs; empty where it has one output, or those of its kind.
    """

    head: ClassVar[HeadKind] = "sequence"
    metrics: ClassVar[tuple[str, ...]]
    problem_type: ClassVar[str | None] = None

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """The task with the labels of a corpus' training examples."""
        del corpus
        return cls()

    @property
    def outputs(self) -> Sequence[str] | int:
        """The names of the head's outputs, or their number."""
        return self.labels or 1

    @abstractmethod
    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        """The examples of a split. limit: only so many, from its start."""

    @abstractmethod
    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        """The targets of a batch whose rows are padded to `longest` tokens, and of how many predictions."""

    def collate(self, examples: Sequence[LabelledExample], padding: int) -> LabelledBatch:
        """The examples as one batch."""
        longest = max(len(row.tokens) for example in examples for row in example.rows)
        return collate(examples, padding, *self.labels_of(examples, longest))

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """The head's outputs for each row, in fp32: of a row [R, C], of its tokens [R, T, C]."""
        return head_logits(model, model_inputs(model, batch))

    @abstractmethod
    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """The summed loss of a batch; divided by its `counted`, transformers' loss of the head."""

    @abstractmethod
    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        """What the logits of each example (`by_example`) predict."""

    def by_example(self, logits: Tensor, batch: LabelledBatch) -> list[FloatArray]:
        """The logits of each example of a batch, without padding."""
        return [rows.squeeze(0).numpy() for rows in torch.split(logits.double().cpu(), batch.rows.tolist())]

    def statistics(self, predictions: Predictions) -> dict[str, FloatArray]:
        """By metric, the counts of each example on which its corpus score depends."""
        return {
            name: label_metric(name, self.labels).statistics(predictions.predicted, predictions.references, self.labels)
            for name in self.metrics
        }

    def score(self, statistics: Mapping[str, FloatArray]) -> float:
        """The score that selects weights."""
        main = self.metrics[0]
        return float(label_metric(main, self.labels).score(statistics[main].sum(axis=0)))


def head_logits(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """The outputs of the model's head, in fp32."""
    logits: Tensor = model(**inputs).logits
    return logits.float()


def class_probabilities(logits: FloatArray) -> FloatArray:
    """The softmax of each row [n, C]."""
    return torch.from_numpy(logits).softmax(dim=1).numpy()


def one_row_each(rows: Sequence[Row], targets: Sequence[Any]) -> list[LabelledExample]:
    """Examples of one row each."""
    return [LabelledExample((row,), target) for row, target in zip(rows, targets, strict=True)]
