"""The loss of a generator on a masked language model: equation 5 of Liu et al. (2021) with the model's own objective.

Lp: a sentence is re-segmented, tokens of it are hidden, and the frozen model predicts them; generated tokens have
generated rows where they are read and where they are predicted. Ld: the distance of the states of the sentence and of
the re-segmented one, of neither of which anything is hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from subgraft.generators.distillation import span_distance
from subgraft.generators.generator import Generator
from subgraft.generators.generator_loss import embed_new, extended_loss
from subgraft.generators.masked_simulation import MaskedGeneratorBatch
from subgraft.models.dropout import without_dropout
from subgraft.models.hidden_states import stack_states
from subgraft.models.sides import Side


class MaskedGeneratorLoss(nn.Module):
    """Named sums of a masked language model's loss under generated embeddings: prediction and distillation."""

    def __init__(
        self, model: nn.Module, generator: Generator, side: Side, kd_weight: float, label_smoothing: float
    ) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.generator = generator
        self._side = side
        self._smoothing = label_smoothing
        self.weights = {"prediction": 1.0, "distillation": kd_weight}

    def forward(self, batch: MaskedGeneratorBatch) -> dict[str, Tensor]:
        table, hidden = self._side.input, batch.hidden
        mixing = self.generator.mixing_weights(table.weight, batch.new)
        embedded = embed_new(table, hidden.input_ids, batch.new, mixing)
        states = stack_states(self.model, inputs_embeds=embedded, attention_mask=hidden.attention_mask)
        predicted = extended_loss(states, self._side, hidden.labels, batch.new, mixing, batch.rivals, self._smoothing)
        losses = {"prediction": predicted}
        if self.weights["distillation"]:
            losses["distillation"] = self._distance(batch, mixing)
        return losses

    def _distance(self, batch: MaskedGeneratorBatch, mixing: Tensor) -> Tensor:
        original, changed = batch.original, batch.resegmented
        with torch.no_grad():
            teacher = stack_states(self.model, input_ids=original.input_ids, attention_mask=original.attention_mask)
        embedded = embed_new(self._side.input, changed.input_ids, batch.new, mixing)
        student = stack_states(self.model, inputs_embeds=embedded, attention_mask=changed.attention_mask)
        return span_distance(teacher, student, batch.spans, shift=0)
