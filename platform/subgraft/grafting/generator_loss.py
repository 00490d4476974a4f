"""The loss a generator is trained on: L = Lp(s') + kd_weight * Ld(s, s') (Liu et al., 2021, equation 5).

Lp is the upstream model's own loss on the re-segmented sentence; its softmax covers the upstream vocabulary and the
sentence's own generated tokens. Ld is the word-aligned distance of hidden states. All but the generator is frozen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from subgraft.grafting.distillation import Position, span_distance, state_shift
from subgraft.grafting.generator import Generator, mix
from subgraft.grafting.simulation import GeneratorBatch
from subgraft.models.dropout import without_dropout
from subgraft.models.hidden_states import decoder_states_beside, encoder_states, input_scale
from subgraft.models.sides import Side
from subgraft.objectives.seq2seq import IGNORED, Seq2SeqBatch, projected_loss
from subgraft.settings import SideName


class GeneratorLoss(nn.Module):
    """Named sums of an encoder-decoder model's loss under generated embeddings: prediction and distillation."""

    def __init__(
        self,
        model: nn.Module,
        generator: Generator,
        sides: dict[SideName, Side],
        side: SideName,
        kd_weight: float,
        label_smoothing: float,
        position: Position,
    ) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.generator = generator
        self._side = side
        self._sides = sides
        self._smoothing = label_smoothing
        self._position = position
        self.weights = {"prediction": 1.0, "distillation": kd_weight}

    def forward(self, batch: GeneratorBatch) -> dict[str, Tensor]:
        table = self._sides[self._side].input.weight
        mixing = self.generator.mixing_weights(table, batch.new)
        if self._side == "decoder":
            return self._decoder_losses(batch, mixing)
        return self._encoder_losses(batch, mixing)

    def _decoder_losses(self, batch: GeneratorBatch, mixing: Tensor) -> dict[str, Tensor]:
        changed = batch.resegmented
        with torch.no_grad():
            memory = self._encode(input_ids=changed.input_ids, attention_mask=changed.attention_mask)
        embedded = self._embed(changed.decoder_input_ids, batch, mixing)
        student = self._decode(memory, changed.attention_mask, inputs_embeds=embedded)
        losses = {"prediction": self._prediction(student, changed, batch, mixing)}
        if self.weights["distillation"]:
            with torch.no_grad():
                teacher = self._decode(memory, changed.attention_mask, input_ids=batch.original.decoder_input_ids)
            losses["distillation"] = self._distance(teacher, student, batch)
        return losses

    def _encoder_losses(self, batch: GeneratorBatch, mixing: Tensor) -> dict[str, Tensor]:
        changed = batch.resegmented
        embedded = self._embed(changed.input_ids, batch, mixing)
        student = self._encode(inputs_embeds=embedded, attention_mask=changed.attention_mask)
        states = self._decode(student, changed.attention_mask, input_ids=changed.decoder_input_ids)
        losses = {"prediction": self._prediction(states, changed, batch, None)}
        if self.weights["distillation"]:
            with torch.no_grad():
                teacher = self._encode(input_ids=batch.original.input_ids, attention_mask=batch.original.attention_mask)
            losses["distillation"] = self._distance(teacher, student, batch)
        return losses

    def _distance(self, teacher: Tensor, student: Tensor, batch: GeneratorBatch) -> Tensor:
        return span_distance(teacher, student, batch.spans, state_shift(self._side, self._position))

    def _encode(self, **inputs: Any) -> Tensor:
        return encoder_states(self.model, **inputs)

    def _decode(self, memory: Tensor, mask: Tensor, **inputs: Any) -> Tensor:
        return decoder_states_beside(self.model, memory, mask, **inputs)

    def _embed(self, ids: Tensor, batch: GeneratorBatch, mixing: Tensor) -> Tensor:
        """Embeddings [B, T, d] of ids that may stand for new tokens."""
        embedding = self._sides[self._side].input
        size = embedding.weight.shape[0]
        is_new = ids >= size
        scale = input_scale(self.model, self._sides[self._side])
        # What the embedding module itself does of that is done.
        outside = scale / float(getattr(embedding, "embed_scale", 1.0))
        embedded: Tensor = embedding(torch.where(is_new, 0, ids)) * outside
        if len(batch.new) == 0:
            return embedded
        generated = mix(embedding.weight, mixing, batch.new) * scale
        rows = generated[torch.where(is_new, ids - size, 0)]
        return torch.where(is_new[..., None], rows.to(embedded.dtype), embedded)

    def _prediction(
        self, states: Tensor, changed: Seq2SeqBatch, batch: GeneratorBatch, mixing: Tensor | None
    ) -> Tensor:
        """Summed cross entropy of the labels; `mixing` extends the softmax by the sentences' own new tokens."""
        side = self._sides["decoder"]
        if mixing is None or len(batch.new) == 0:
            return projected_loss(states, side, changed.labels, self._smoothing)
        assert side.output is not None
        counted = changed.labels != IGNORED
        picked, labels = states[counted], changed.labels[counted]
        known = nn.functional.linear(picked, side.output.weight).float()
        new = nn.functional.linear(picked, mix(side.output.weight, mixing, batch.new)).float()
        if side.bias is not None:
            bias = side.bias.reshape(-1, 1)
            known, new = known + bias.reshape(-1), new + mix(bias, mixing, batch.new).reshape(-1)
        own = batch.own[:, None, :].expand(-1, changed.labels.shape[1], -1)[counted]
        return extended_cross_entropy(known, new, own, labels, self._smoothing)


def extended_cross_entropy(known: Tensor, new: Tensor, own: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross entropy summed over N labels, over V known tokens and those of K new ones that are a sentence's own.

    known [N, V] and new [N, K] are logits; own [N, K] tells which new tokens take part; labels [N] count new tokens
    from V on. Equals cross_entropy over the concatenation without the others, which is never built.
    """
    size = known.shape[1]
    allowed = new.masked_fill(~own, -torch.inf)
    # A sentence without new tokens has a row of -inf alone, whose logsumexp has no gradient: so not logaddexp of two.
    normaliser = torch.cat([known.logsumexp(dim=1, keepdim=True), allowed], dim=1).logsumexp(dim=1)
    is_new = labels >= size
    gold_known = known.gather(1, torch.where(is_new, 0, labels)[:, None])[:, 0]
    gold_new = new.gather(1, torch.where(is_new, labels - size, 0)[:, None])[:, 0]
    gold = torch.where(is_new, gold_new, gold_known)
    nll = normaliser - gold
    if not label_smoothing:
        return nll.sum()
    total = known.sum(dim=1) + torch.where(own, new, 0.0).sum(dim=1)
    uniform = normaliser - total / (size + own.sum(dim=1))
    return ((1.0 - label_smoothing) * nll + label_smoothing * uniform).sum()
