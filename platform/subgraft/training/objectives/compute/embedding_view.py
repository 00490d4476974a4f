"""Embedding views: the embeddings with which a model reads and predicts, its own ones or those plus generated ones.

An objective computes its states and its loss through a view. So the same code trains a model and, with the model
frozen, a generator of embeddings for tokens that the model lacks. The softmax of extended embeddings is over the
vocabulary plus the new tokens of a batch, each of which competes only in some sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.modeling.families.family import softcap
from subgraft.modeling.precision import to_device
from subgraft.modeling.sides import Side, input_scale, side
from subgraft.training.objectives.compute.cross_entropy import linear_cross_entropy


@dataclass(frozen=True)
class CompetingTokens:
    """The softmax's classes: which of the V tokens of the vocabulary and of a batch's K new tokens compete.

    Attributes:
        own: bool [B, K], the new tokens that compete in each sentence.
        spelling: int64 [K], the token of the vocabulary with the same spelling, or else a number >= V that is equal for
            equal spellings. Tokens with the same spelling do not compete.
        absent: int64 [A], tokens of the vocabulary that do not compete.
        weights: float [K], added to the logits of new tokens: log(n / k) if k sampled tokens represent n.
    """

    own: Tensor
    spelling: Tensor
    absent: Tensor
    weights: Tensor

    @classmethod
    def of(cls, own: Tensor, spelling: Tensor) -> CompetingTokens:
        """The complete vocabulary competes, and each new token represents itself."""
        return cls(own, spelling, torch.zeros(0, dtype=torch.long), torch.zeros(len(spelling)))

    def to(self, device: torch.device | str) -> CompetingTokens:
        return CompetingTokens(*(to_device(getattr(self, each.name), device) for each in fields(self)))


def without_twins(known: Tensor, own: Tensor, labels: Tensor, spelling: Tensor) -> tuple[Tensor, Tensor]:
    """Remove other tokens with the same spelling as the label from the label's softmax.

    Args:
        known: logits [N, V] of the vocabulary; removed tokens become -inf.
        own: bool [N, K], new tokens that compete.
        labels: ids [N]; new tokens count from V on.
        spelling: int64 [K], see `CompetingTokens`.

    Returns:
        `known` and `own` without the removed tokens.
    """
    size = known.shape[1]
    is_new = labels >= size
    label_spelling = torch.where(is_new, spelling[torch.where(is_new, labels - size, 0)], labels)
    is_label = labels[:, None] - size == torch.arange(len(spelling), device=labels.device)
    own = own & ((spelling != label_spelling[:, None]) | is_label)
    (rows,) = (is_new & (label_spelling < size)).nonzero(as_tuple=True)
    if len(rows):
        known = known.index_put((rows, label_spelling[rows]), known.new_tensor(-torch.inf))
    return known, own


def extended_cross_entropy(known: Tensor, new: Tensor, own: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross entropy over V known and K new tokens, summed over N labels.

    It equals cross_entropy over the concatenation of all competing tokens, which is never built.

    Args:
        known: logits [N, V]; -inf for tokens that do not compete.
        new: logits [N, K].
        own: bool [N, K], new tokens that compete.
        labels: ids [N]; new tokens count from V on.
        label_smoothing: weight of the uniform distribution over competing tokens.
    """
    size = known.shape[1]
    allowed = new.masked_fill(~own, -torch.inf)
    # logaddexp of two logsumexps would fail: a sentence without new tokens has a row of -inf, which has no gradient.
    normaliser = torch.cat([known.logsumexp(dim=1, keepdim=True), allowed], dim=1).logsumexp(dim=1)
    is_new = labels >= size
    gold_known = known.gather(1, torch.where(is_new, 0, labels)[:, None])[:, 0]
    gold_new = new.gather(1, torch.where(is_new, labels - size, 0)[:, None])[:, 0]
    gold = torch.where(is_new, gold_new, gold_known)
    nll = normaliser - gold
    if not label_smoothing:
        return nll.sum()
    is_competing = known > -torch.inf
    total = torch.where(is_competing, known, 0.0).sum(dim=1) + torch.where(own, new, 0.0).sum(dim=1)
    uniform = normaliser - total / (is_competing.sum(dim=1) + own.sum(dim=1))
    return ((1.0 - label_smoothing) * nll + label_smoothing * uniform).sum()


IGNORED = -100
TableName = Literal["input", "output", "bias"]


class EmbeddingView(Protocol):
    """The embeddings of each side. A single-stack model has only those of the decoder, the side that predicts."""

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        """The inputs of a side's stack for ids [B, T]: `input_ids`, or `inputs_embeds` [B, T, d]."""
        ...

    def extends(self, name: SideName) -> bool:
        """Whether a side's ids may include new tokens."""
        ...

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        """Cross entropy of top states [B, T, d] and the labels that are not IGNORED, summed, in nats."""
        ...


class ModelEmbeddings:
    """The model's own embeddings."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._decoder = side(model, "decoder")

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        del name
        return {"input_ids": ids}

    def extends(self, name: SideName) -> bool:
        del name
        return False

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        decoder = self._decoder
        assert decoder.output is not None
        picked, gold = counted_states(states, labels, decoder)
        bias = None if decoder.bias is None else decoder.bias.reshape(-1)
        return linear_cross_entropy(picked, decoder.output.weight, bias, gold, label_smoothing, decoder.cap)


class GeneratedRows(Protocol):
    """K generated rows for each of a side's tables."""

    def __len__(self) -> int: ...

    def of(self, name: TableName, table: Tensor) -> Tensor:
        """The rows [K, k] that extend the table [V, k] of this name."""
        ...

    def zero(self) -> Tensor:
        """A zero with a gradient path to the generator's parameters."""
        ...


class ExtendedTables:
    """The model's tables, extended on one side by rows of new tokens, whose ids start at V.

    On the decoder side new tokens are also predicted; `competing_tokens` defines in which sentences.
    """

    def __init__(
        self, model: PreTrainedModel, name: SideName, rows: GeneratedRows, competing_tokens: CompetingTokens
    ) -> None:
        self._model_embeddings = ModelEmbeddings(model)
        self._side = side(model, name)
        self._scale = input_scale(model, self._side)
        self._rows = rows
        self._competing = competing_tokens

    def extends(self, name: SideName) -> bool:
        return name == self._side.name

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        if not self.extends(name):
            return self._model_embeddings.read(name, ids)
        embedding: nn.Embedding = self._side.input
        size = embedding.weight.shape[0]
        is_new = ids >= size
        # The embedding module applies a part of the scale itself.
        remaining_scale = self._scale / float(getattr(embedding, "embed_scale", 1.0))
        embedded: Tensor = embedding(torch.where(is_new, 0, ids)) * remaining_scale
        if len(self._rows) == 0:
            # All workers must run the backward pass of the same layers, with or without new tokens. Otherwise ZeRO 3
            # would wait forever.
            return {"inputs_embeds": embedded + self._rows.zero().to(embedded.dtype)}
        generated = self._rows.of("input", embedding.weight) * self._scale
        rows = generated[torch.where(is_new, ids - size, 0)]
        return {"inputs_embeds": torch.where(is_new[..., None], rows.to(embedded.dtype), embedded)}

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        if self._side.output is None or len(self._rows) == 0:
            return self._model_embeddings.cross_entropy(states, labels, label_smoothing)
        output, bias = self._side.output.weight, self._side.bias
        picked, gold = counted_states(states, labels, self._side)
        known = nn.functional.linear(picked, output).float()
        generated = nn.functional.linear(picked, self._rows.of("output", output)).float()
        if bias is not None:
            known = known + bias.reshape(-1)
            generated = generated + self._rows.of("bias", bias.reshape(-1, 1)).reshape(-1)
        own = self._competing.own[:, None, :].expand(-1, labels.shape[1], -1)[labels != IGNORED]
        known = softcap(known, self._side.cap).index_fill(1, self._competing.absent, -torch.inf)
        generated = softcap(generated, self._side.cap) + self._competing.weights
        known, own = without_twins(known, own, gold, self._competing.spelling)
        return extended_cross_entropy(known, generated, own, gold, label_smoothing)


def counted_states(states: Tensor, labels: Tensor, decoder: Side) -> tuple[Tensor, Tensor]:
    """The labels [N] that are not IGNORED, and their states [N, d], ready for the output projection."""
    is_label = labels != IGNORED
    picked = states[is_label] if decoder.transform is None else decoder.transform(states[is_label])
    return picked, labels[is_label]
