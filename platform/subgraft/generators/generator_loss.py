"""The loss a generator is trained on: L = Lp(s') + kd_weight * Ld(s, s') (Liu et al., 2021, equation 5).

Lp is the upstream model's own loss on the re-segmented sentence; its softmax covers the upstream vocabulary and the
sentence's own generated tokens. Ld is the word-aligned distance of hidden states. All but the generator is frozen.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from subgraft.config.base import SideName
from subgraft.generators.distillation import Position, span_distance, state_shift
from subgraft.generators.generator import Generator, RaggedSimilar, mix
from subgraft.generators.simulation import GeneratorBatch, Rivals
from subgraft.models.dropout import without_dropout
from subgraft.models.hidden_states import decoder_states_beside, encoder_states, input_scale
from subgraft.models.sides import Side
from subgraft.objectives.seq2seq import IGNORED, projected_loss


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
        changed, side, mask = batch.resegmented, self._sides["decoder"], batch.resegmented.attention_mask
        with torch.no_grad():
            memory = encoder_states(self.model, input_ids=changed.input_ids, attention_mask=mask)
        embedded = embed_new(side.input, changed.decoder_input_ids, batch.new, mixing, input_scale(self.model, side))
        student = decoder_states_beside(self.model, memory, mask, inputs_embeds=embedded)
        predicted = extended_loss(student, side, changed.labels, batch.new, mixing, batch.rivals, self._smoothing)
        losses = {"prediction": predicted}
        if self.weights["distillation"]:
            with torch.no_grad():
                teacher = decoder_states_beside(self.model, memory, mask, input_ids=batch.original.decoder_input_ids)
            losses["distillation"] = self._distance(teacher, student, batch)
        return losses

    def _encoder_losses(self, batch: GeneratorBatch, mixing: Tensor) -> dict[str, Tensor]:
        changed, side, mask = batch.resegmented, self._sides["encoder"], batch.resegmented.attention_mask
        embedded = embed_new(side.input, changed.input_ids, batch.new, mixing, input_scale(self.model, side))
        student = encoder_states(self.model, inputs_embeds=embedded, attention_mask=mask)
        states = decoder_states_beside(self.model, student, mask, input_ids=changed.decoder_input_ids)
        predicted = projected_loss(states, self._sides["decoder"], changed.labels, self._smoothing)
        losses = {"prediction": predicted}
        if self.weights["distillation"]:
            original = batch.original
            with torch.no_grad():
                teacher = encoder_states(
                    self.model, input_ids=original.input_ids, attention_mask=original.attention_mask
                )
            losses["distillation"] = self._distance(teacher, student, batch)
        return losses

    def _distance(self, teacher: Tensor, student: Tensor, batch: GeneratorBatch) -> Tensor:
        return span_distance(teacher, student, batch.spans, state_shift(self._side, self._position))


def embed_new(embedding: nn.Embedding, ids: Tensor, new: RaggedSimilar, mixing: Tensor, scale: float = 1.0) -> Tensor:
    """Embeddings [B, T, d] of ids that may stand for new tokens, these mixed by their weights [nnz].

    They depend on the weights even where no id is new, so that there always is a gradient: workers of which some have
    new tokens and some have none must pass backward through the same layers, or those that ZeRO 3 shards wait forever.
    scale: what rows of the table are multiplied by before the model is given them.
    """
    size = embedding.weight.shape[0]
    is_new = ids >= size
    # What the embedding module itself does of that is done.
    outside = scale / float(getattr(embedding, "embed_scale", 1.0))
    embedded: Tensor = embedding(torch.where(is_new, 0, ids)) * outside
    if len(new) == 0:
        return embedded + mixing.sum().to(embedded.dtype)  # of no weights: nought
    generated = mix(embedding.weight, mixing, new) * scale
    rows = generated[torch.where(is_new, ids - size, 0)]
    return torch.where(is_new[..., None], rows.to(embedded.dtype), embedded)


def extended_loss(
    states: Tensor,
    side: Side,
    labels: Tensor,
    new: RaggedSimilar,
    mixing: Tensor,
    rivals: Rivals,
    label_smoothing: float,
) -> Tensor:
    """Summed cross entropy of the labels [B, T], the softmax extended by the new tokens that compete in a sentence."""
    if len(new) == 0:
        return projected_loss(states, side, labels, label_smoothing)
    assert side.output is not None
    counted = labels != IGNORED
    picked = states[counted] if side.transform is None else side.transform(states[counted])
    known = nn.functional.linear(picked, side.output.weight).float()
    generated = nn.functional.linear(picked, mix(side.output.weight, mixing, new)).float()
    if side.bias is not None:
        bias = side.bias.reshape(-1, 1)
        known, generated = known + bias.reshape(-1), generated + mix(bias, mixing, new).reshape(-1)
    own = rivals.own[:, None, :].expand(-1, labels.shape[1], -1)[counted]
    gold = labels[counted]
    known, own = without_twins(known, own, gold, rivals.spelling)
    return extended_cross_entropy(known, generated, own, gold, label_smoothing)


def without_twins(known: Tensor, own: Tensor, labels: Tensor, spelling: Tensor) -> tuple[Tensor, Tensor]:
    """Take what is spelled as a label [N] is, and yet is another token, out of its softmax.

    known [N, V]: logits, -inf for a token that stands aside for the new one of its spelling [K].  own [N, K]: which new
    tokens take part.
    """
    size = known.shape[1]
    is_new = labels >= size
    spelled = torch.where(is_new, spelling[torch.where(is_new, labels - size, 0)], labels)
    itself = labels[:, None] - size == torch.arange(len(spelling), device=labels.device)
    own = own & ((spelling != spelled[:, None]) | itself)
    (aside,) = (is_new & (spelled < size)).nonzero(as_tuple=True)
    if len(aside):
        known = known.index_put((aside, spelled[aside]), known.new_tensor(-torch.inf))
    return known, own


def extended_cross_entropy(known: Tensor, new: Tensor, own: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross entropy summed over N labels, over V known tokens and those of K new ones that take part.

    known [N, V] and new [N, K] are logits; own [N, K] tells which new tokens take part, a known one does not where it
    is -inf; labels [N] count new tokens from V on. Equals cross_entropy over the concatenation without the others,
    which is never built.
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
    there = known > -torch.inf
    total = torch.where(there, known, 0.0).sum(dim=1) + torch.where(own, new, 0.0).sum(dim=1)
    uniform = normaliser - total / (there.sum(dim=1) + own.sum(dim=1))
    return ((1.0 - label_smoothing) * nll + label_smoothing * uniform).sum()
