"""The loss a generator is trained on: L = Lp(s') + kd_weight * Ld(s, s') (Liu et al., 2021, equation 5).

Lp is the upstream model's own loss on the re-segmented sentence, whatever its objective; where it predicts the side in
question, its softmax covers the upstream vocabulary and the sentence's own generated tokens. Ld is the word-aligned
distance of hidden states. All but the generator is frozen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.embeddings.generators.distillation import Position, span_distance, state_shift
from subgraft.embeddings.generators.simulation import GeneratorBatch
from subgraft.modeling.dropout import without_dropout
from subgraft.modeling.sides import side
from subgraft.training.objectives.embedding_view import ExtendedTables
from subgraft.training.objectives.objective import GeneratorView


class GeneratorLoss(nn.Module):
    """Named sums of a model's loss under generated embeddings: prediction and distillation.

    generator: whatever makes `rows` for a side of what a batch has in `new`.
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
        self.weights = {"prediction": 1.0, "distillation": kd_weight}

    def forward(self, batch: GeneratorBatch) -> dict[str, Tensor]:
        model, view, smoothing = self.model, self._view, self._smoothing
        rows = self.generator.rows(side(model, view.side), batch.new)
        tables = ExtendedTables(model, view.side, rows, batch.rivals)
        predicting = view.states(model, batch.predicted, tables)
        losses = {"prediction": tables.cross_entropy(predicting.top, batch.predicted.labels, smoothing)}
        if not self.weights["distillation"]:
            return losses
        one_reading = batch.predicted is batch.resegmented
        student = predicting if one_reading else view.states(model, batch.resegmented, tables)
        with torch.no_grad():
            teacher = student.of_original(batch.original).of(view.side)
        losses["distillation"] = span_distance(teacher, student.of(view.side), batch.spans, self._shift)
        return losses
