"""The loss a generator is trained on: L = Lp(s') + kd_weight * Ld(s, s') (Liu et al., 2021, equation 5).

Lp is the upstream model's own loss on the re-segmented sentence, for any objective. If the objective predicts the
changed side, the softmax covers the upstream vocabulary and the sentence's generated tokens. Ld is the word-aligned
distance of hidden states. Only the generator is trained.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.embeddings.generators.simulation import GeneratorBatch, SpanPairs
from subgraft.modeling.sides import side, without_dropout
from subgraft.training.objectives.compute.embedding_view import ExtendedTables
from subgraft.training.objectives.compute.interface import GeneratorView, ObjectiveLoss


class GeneratorLoss(ObjectiveLoss):
    """Maps a batch to the sums of its losses under generated embeddings: prediction and distillation.

    If the objective has losses that predict no tokens, such as that of the next sentence, these are part of Lp too.

    generator: a module whose `rows` generates a side's rows from a batch's `new`.
    """

    generator: Any

    def __init__(
        self,
        model: PreTrainedModel,
        generator: nn.Module,
        view: GeneratorView[Any],
        kd_weight: float,
        label_smoothing: float,
        position: Position,
    ) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.generator = generator
        self._view = view
        self._smoothing = label_smoothing
        self._shift = state_shift(view.causal, position)
        self.weights = {"prediction": 1.0, **view.sequence_weights, "distillation": kd_weight}

    def forward(self, batch: GeneratorBatch) -> dict[str, Tensor]:
        model, view, smoothing = self.model, self._view, self._smoothing
        rows = self.generator.rows(side(model, view.side), batch.new)
        tables = ExtendedTables(model, view.side, rows, batch.competing_tokens)
        predicting = view.states(model, batch.predicted, tables)
        losses = {"prediction": tables.cross_entropy(predicting.top, batch.predicted.labels, smoothing)}
        losses |= view.sequence_losses(model, predicting, batch.predicted)
        if not self.weights["distillation"]:
            return losses
        same_input = batch.predicted is batch.resegmented
        student = predicting if same_input else view.states(model, batch.resegmented, tables)
        with torch.no_grad():
            teacher = student.of_original(batch.original).of(view.side)
        losses["distillation"] = span_distance(teacher, student.of(view.side), batch.spans, self._shift)
        return losses


# Word-aligned knowledge distillation (Liu et al., 2021, equation 4).
#
# The loss is summed over the smallest spans at whose ends the original and the re-segmented sentence agree. For each it
# is the Euclidean distance between the frozen model's mean top hidden states on the two sentences.

Position = Literal["input", "prediction"]


def span_distance(teacher: Tensor, student: Tensor, spans: SpanPairs, shift: int) -> Tensor:
    """The distance of mean hidden states, summed over spans.

    Args:
        teacher: states on the original sentences [B, T, d].
        student: states on the re-segmented sentences [B, T', d].
        spans: the token positions of each span in both.
        shift: offset of a token's state from its position. A causal decoder reads a token one position after it
            predicts it (1); an encoder's state is at the token itself (0).
    """
    originals = _span_means(teacher, spans.original, spans.count, shift)
    resegmented = _span_means(student, spans.resegmented, spans.count, shift)
    distances: Tensor = torch.linalg.vector_norm(originals - resegmented, dim=-1)
    return distances.sum()


def _span_means(states: Tensor, members: Tensor, count: int, shift: int) -> Tensor:
    """Mean state of each span [count, d], in fp32."""
    sentence, position, span = members.unbind(dim=1)
    selected = states[sentence, position + shift].float()
    sums = selected.new_zeros(count, selected.shape[-1]).index_add(0, span, selected)
    return sums / torch.bincount(span, minlength=count).clamp(min=1)[:, None]


def state_shift(causal: bool, position: Position) -> int:
    """The offset of a token's state from its position among labels (of a causal stack) or inputs (of others)."""
    return 1 if causal and position == "input" else 0
