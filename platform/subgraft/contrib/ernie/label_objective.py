"""Pretraining objectives that predict labels, each with a head on the body of one model (ERNIE 2, section 3.2).

The heads are classes of transformers that share the parameters of the pretrained model. A head that a batch does not
use has no gradient on any worker and does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import HeadKind, SideName
from subgraft.contrib.ernie.label_tasks import LabelExample, Room, examples_of, task_labels
from subgraft.contrib.ernie.objectives import LabelTaskSettings
from subgraft.modeling.families import family_of
from subgraft.modeling.further_heads import load_weights, read_head, saved_heads, share_parameters
from subgraft.modeling.heads import with_head
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import (
    GeneratorView,
    LastWeights,
    ObjectiveInputs,
    ObjectiveLoss,
    PaddedBatch,
    pad,
    pad_with_mask,
)


@dataclass(frozen=True)
class TaskBatch(PaddedBatch):
    """A padded batch: input_ids, attention_mask, token_type_ids [B, T]; labels [B, T] of tokens, or [B] of texts."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    labels: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.input_ids), self.input_ids.shape[1]


class SegmentedBatch(Protocol):
    """A batch of texts in segments."""

    @property
    def input_ids(self) -> Tensor: ...
    @property
    def attention_mask(self) -> Tensor: ...
    @property
    def token_type_ids(self) -> Tensor: ...


class HeadedLoss(ObjectiveLoss):
    """The base of losses that have their own head.

    model: the pretrained model with this head.  task: the index of the objective's embedding.
    """

    has_own_head = True

    def __init__(self, model: PreTrainedModel, task: int) -> None:
        super().__init__()
        self.model, self._task = model, task
        config = model.config.to_dict()
        self._segments, self._tasks = config.get("type_vocab_size", 0), family_of(model).task_embeddings(config)

    def inputs(self, batch: SegmentedBatch) -> dict[str, Tensor]:
        """The model's inputs from a batch."""
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if self._segments > 1:
            inputs["token_type_ids"] = batch.token_type_ids.clamp(max=self._segments - 1)
        if self._tasks:
            inputs["task_type_ids"] = torch.full_like(batch.input_ids, self._task)
        return inputs


class TaskLoss(HeadedLoss):
    """The cross entropy of a head's labels, summed over those that are not IGNORED."""

    def __init__(self, model: PreTrainedModel, task: int, label_smoothing: float = 0.0) -> None:
        super().__init__(model, task)
        self._label_smoothing = label_smoothing

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        logits = self.model(**self.inputs(batch)).logits
        loss = cross_entropy(
            logits.flatten(0, -2).float(),
            batch.labels.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self._label_smoothing,
        )
        return {"loss": loss}


class TaskObjective(LastWeights):
    """An objective that predicts labels of the upstream corpus's text; the last weights are selected."""

    def __init__(self, settings: LabelTaskSettings, request: ObjectiveInputs) -> None:
        """Raises UserError for a corpus without examples, and for a model that lacks an embedding of this objective."""
        bundle, layout = request.bundle, request.bundle.input_layout()
        self._layout, self._padding = layout, bundle.padding[0]
        around = len(layout.begin) + len(layout.end)
        room = Room(request.training.max_length - around, len(layout.separator))
        self._examples = examples_of(settings, request, room)
        self._around, self._settings, self._request = around, settings, request
        self._task = task_number(request)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._examples.lengths + self._around
        return lengths

    def batch(self, indices: np.ndarray, epoch: int) -> TaskBatch:
        examples = [self._examples.example(int(index), epoch) for index in indices]
        rows = [self._lay_out(example) for example in examples]
        tokens, mask = pad_with_mask([row[0] for row in rows], self._padding)
        types = pad([row[1] for row in rows], 0)
        if not self._settings.token_level:
            return TaskBatch(tokens, mask, types, torch.tensor([example.labels for example in examples]))
        before, after = len(self._layout.begin), len(self._layout.end)
        labels = [[IGNORED] * before + list(_token_labels(each)) + [IGNORED] * after for each in examples]
        return TaskBatch(tokens, mask, types, pad(labels, IGNORED))

    def _lay_out(self, example: LabelExample) -> tuple[list[int], list[int]]:
        """The tokens of an example and their segments. A text and the separator after it are one segment."""
        layout = self._layout
        tokens, types = list(layout.begin), [0] * len(layout.begin)
        for number, text in enumerate(example.texts):
            last = number == len(example.texts) - 1
            tokens += [*text, *(layout.end if last else layout.separator)]
            types += [number] * (len(tokens) - len(types))
        return tokens, types

    def loss(self, label_smoothing: float) -> TaskLoss:
        kind: HeadKind = "tokens" if self._settings.token_level else "sequence"
        model, seed = self._request.bundle.model, self._request.seed
        labels = task_labels(self._settings, self._request)
        headed = objective_head(model, self._settings.kind, kind, labels, seed, self._padding)
        return TaskLoss(headed, self._task, label_smoothing)

    def view(self, name: SideName) -> GeneratorView[Any]:
        return no_view(self._settings.kind, name)


def objective_head(
    model: PreTrainedModel, objective: str, kind: HeadKind, labels: Sequence[str], seed: int, padding: int
) -> PreTrainedModel:
    """The model with the head of an objective, sharing its parameters.

    The head is loaded from the model's directory if an earlier pretraining saved one for the same labels; otherwise it
    is initialised from the seed.
    """
    headed = with_head(model, kind, labels, seed, padding_id=padding)
    directory = Path(model.name_or_path or "")
    if model.name_or_path and (saved := saved_heads(directory).get(objective)) and saved.get("labels") == list(labels):
        load_weights(headed, read_head(directory, objective)[1], directory)
    share_parameters([model, headed])
    return headed


def _token_labels(example: LabelExample) -> Sequence[int]:
    assert isinstance(example.labels, list)
    return example.labels


def no_view(kind: str, name: SideName) -> NoReturn:
    """Raises UserError: generators are trained on the other objectives only."""
    raise UserError(
        f"no generator of embeddings of the {name} is trained on the objective {kind}",
        hint="Train it with masked among upstream.objectives.",
    )


def task_number(request: ObjectiveInputs) -> int:
    """The index of an objective's embedding. Raises UserError if the model has fewer such embeddings."""
    model = request.bundle.model
    count = family_of(model).task_embeddings(model.config.to_dict())
    if count and request.task >= count:
        raise UserError(
            f"the model has embeddings of {count} objectives, and there are more",
            where="upstream.objectives",
            hint="Set model.task_embeddings to their number; of a checkpoint, leave some out.",
        )
    return request.task
