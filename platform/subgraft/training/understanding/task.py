"""The interface of a task of understanding: its head, examples, loss, predictions and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import HeadKind
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.labelled import Kind, label_metric, label_score, metrics_for
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.objectives.labelled import LabelSettings
from subgraft.training.understanding.input_forms import InputForm
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
    """The predictions for the examples of a split, in their order.

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
    """The examples of a split, or inputs without labels.

    Attributes:
        examples: The examples; an input that is read in several windows has several.
        texts: The text of each input, for reports.
        details: Data that the task needs to convert the model's outputs to predictions.
        references: The correct predictions, in a form that the task defines; None without labels.
        owners: The index of each example's input, ascending; None if each input has one example.
    """

    examples: list[LabelledExample]
    texts: list[str]
    details: Any = field(default=None, repr=False)
    references: Any = None
    owners: NDArray[np.int64] | None = None

    def with_targets(self, targets: Iterable[Any], references: Any) -> Split:
        """A copy in which each example has its target."""
        pairs = zip(self.examples, targets, strict=True)
        examples = [replace(example, target=target) for example, target in pairs]
        return replace(self, examples=examples, references=references)

    @property
    def truncated(self) -> int:
        """The number of inputs with a truncated text."""
        return int(self.are_truncated.sum())

    @property
    def are_truncated(self) -> NDArray[np.bool_]:
        """Whether a text of each input is truncated [n]."""
        of_examples = np.array(
            [any(row.truncated for row in example.rows) for example in self.examples], dtype=np.bool_
        )
        are_truncated = np.zeros(len(self.texts), dtype=np.bool_)
        are_truncated[self._owners[of_examples]] = True
        return are_truncated

    def examples_of(self, indices: NDArray[np.int64]) -> list[LabelledExample]:
        """The examples of the inputs with these indices."""
        return [self.examples[index] for index in np.flatnonzero(np.isin(self._owners, indices)).tolist()]

    @property
    def _owners(self) -> NDArray[np.int64]:
        return np.arange(len(self.examples)) if self.owners is None else self.owners


class LabelledTask(ABC):
    """A task on the labelled examples of a corpus, or on inputs whose labels are to be predicted.

    Attributes:
        head: The kind of the model's head.
        predicts: The kind of its predictions, which determines the available metrics.
        metrics: The names of the metrics; the first one selects weights on dev.
        problem_type: transformers' setting of the head, which determines its loss.
        form: The form of the inputs that users pass to a finetuned model.
        unrecorded_form: The form for a model that was finetuned elsewhere and may read other texts; None for `form`.
        labels: The names of the head's outputs; empty if it has one output, or outputs that its kind defines.
        judged: The settings of its metrics.
    """

    head: ClassVar[HeadKind] = "sequence"
    predicts: ClassVar[Kind] = "class"
    metrics: tuple[str, ...]
    problem_type: ClassVar[str | None] = None
    form: InputForm
    unrecorded_form: ClassVar[InputForm | None] = None

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.judged = LabelSettings()

    def judged_by(self, settings: LabelSettings, where: str) -> Self:
        """Set the metrics and return the task. Raises UserError for unsuitable metrics or an unknown negative class."""
        self.judged, self.metrics, negative = settings, settings.metrics or self.metrics, settings.negative
        known = metrics_for(self.predicts, self.labels)
        if others := [name for name in self.metrics if name not in known]:
            hint = f"Choose from {_abbreviate(known)}."
            raise UserError(
                f"labels.metrics: '{others[0]:.40}' is not a metric of these predictions", where=where, hint=hint
            )
        if negative is not None and not any(label_metric(name).without_negative for name in self.metrics):
            hint = "Leave it out, or name such a metric as labels.metrics."
            what = f"labels.negative: none of {', '.join(self.metrics)} leaves out a class"
            raise UserError(what, where=where, hint=hint)
        if negative is not None and negative not in self.labels:
            what = f"labels.negative: '{negative:.40}' is not a class of the training examples"
            raise UserError(what, where=where, hint=f"They have {_abbreviate(self.labels)}.")
        return self

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """The task with the labels of a corpus' training examples."""
        del corpus
        return cls()

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        """The task of a finetuned model, from the labels of its head and the recorded `settings`."""
        del settings
        return cls(labels)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, besides the labels, that predictions depend on, as JSON."""
        return {}

    @property
    def outputs(self) -> Sequence[str] | int:
        """The names of the head's outputs, or their number."""
        return self.labels or 1

    @abstractmethod
    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        """The inputs of a split without labels. limit: the maximum number of inputs, from the start of the split."""

    @abstractmethod
    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        """Encode inputs for the model, without labels."""

    @abstractmethod
    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        """Add the labels of a split to its encoded inputs."""

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        """The labelled examples of a split. limit: the maximum number of inputs, from the start of the split."""
        return self.labelled(self.read(self.inputs(corpus, name, limit), encoder), corpus, name, limit)

    def is_trainable(self, example: LabelledExample) -> bool:
        """Whether the loss of an example depends on the model; training skips all other examples."""
        del example
        return True

    @abstractmethod
    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        """The targets of a batch, and the number of predictions."""

    def collate(self, examples: Sequence[LabelledExample], padding: int) -> LabelledBatch:
        """The examples as one batch; without labels it counts no prediction."""
        if any(example.target is None for example in examples):
            return collate(examples, padding, torch.zeros(0), 0)
        return collate(examples, padding, *self.labels_of(examples))

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """The head's outputs for each row, in fp32: of a row [R, C], of its tokens [R, T, C]."""
        return head_logits(model, model_inputs(model, batch))

    @abstractmethod
    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """The summed loss of a batch; divided by the batch's `counted`, it equals transformers' loss of this head."""

    @abstractmethod
    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> Any:
        """Predictions from the logits of each example (`by_example`), in the same form as references."""

    @abstractmethod
    def in_words(self, predicted: Any, split: Split) -> list[str]:
        """Each prediction, or reference, as a line of text."""

    @abstractmethod
    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        """Each prediction with its scores, as JSON, for the users of a model."""

    def probabilities(self, outputs: Sequence[FloatArray]) -> FloatArray | None:
        """The probability of each class [n, C]; None where no single class is predicted."""
        del outputs
        return None

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        """The predictions next to the references of a labelled split."""
        predicted, references = self.predicted(outputs, split), split.references
        texts, reference_texts = (self.in_words(side, split) for side in (predicted, references))
        return Predictions(predicted, references, texts, reference_texts, self.probabilities(outputs))

    def by_example(self, logits: Tensor, batch: LabelledBatch) -> list[FloatArray]:
        """The logits of each example of a batch, padding included."""
        return [rows.squeeze(0).numpy() for rows in torch.split(logits.double().cpu(), batch.rows.tolist())]

    def statistics(self, predictions: Predictions) -> dict[str, FloatArray]:
        """For each metric, the statistics of each example from which the corpus score is computed."""
        return {
            name: label_metric(name).statistics(
                predictions.predicted, predictions.references, self.labels, self.judged.negative
            )
            for name in self.metrics
        }

    def scores(self, statistics: Mapping[str, FloatArray]) -> dict[str, Score]:
        """The corpus score of each metric."""
        negative = self.judged.negative
        return {name: label_score(label_metric(name), counts, negative) for name, counts in statistics.items()}

    def score(self, statistics: Mapping[str, FloatArray]) -> float:
        """The score that selects weights."""
        return self.scores(statistics)[self.metrics[0]].value


def _abbreviate(names: Sequence[str]) -> str:
    return f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"


def head_logits(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """The outputs of the model's head, in fp32."""
    logits: Tensor = model(**inputs).logits
    return logits.float()


def class_probabilities(logits: FloatArray) -> FloatArray:
    """The softmax of each row [n, C]."""
    return torch.from_numpy(logits).softmax(dim=1).numpy()


def one_row_each(rows: Iterable[Row]) -> list[LabelledExample]:
    """Examples of one row each, without targets."""
    return [LabelledExample((row,)) for row in rows]
