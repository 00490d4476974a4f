"""What a model reads embeddings from and predicts by: its own tables, or these extended by generated rows.

An objective computes its states and its loss through a lexicon, so that the same code trains a model and, with the
model frozen, a generator of rows for tokens that its tables lack.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.modeling.hidden_states import input_scale
from subgraft.modeling.sides import Side, side
from subgraft.training.objectives.cross_entropy import linear_cross_entropy
from subgraft.training.objectives.extended_softmax import CompetingTokens, extended_cross_entropy, without_twins

IGNORED = -100
TableName = Literal["input", "output", "bias"]


class EmbeddingView(Protocol):
    """A model of one stack reads by the table of the side that predicts, its decoder's."""

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        """Ids [B, T] of a side as the inputs of its stack: `input_ids`, or `inputs_embeds` [B, T, d]."""
        ...

    def extends(self, name: SideName) -> bool:
        """Whether a side's ids may be of new tokens."""
        ...

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        """Of top states [B, T, d] against the labels that are not IGNORED, summed, in nats."""
        ...


class ModelEmbeddings:
    """The model's own tables."""

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
        return linear_cross_entropy(picked, decoder.output.weight, bias, gold, label_smoothing)


class GeneratedRows(Protocol):
    """K rows beside those of a table."""

    def __len__(self) -> int: ...

    def of(self, name: TableName, table: Tensor) -> Tensor:
        """The rows [K, k] that belong beside a table [V, k], which is the one of this name."""
        ...

    def zero(self) -> Tensor:
        """Zero, as something that depends on what makes the rows."""
        ...


class ExtendedTables:
    """The model's tables, and on one side rows for new tokens: ids of V and above stand for them.

    Where that is the decoder's side they are predicted too; `competing_tokens` says in which sentences.
    """

    def __init__(
        self, model: PreTrainedModel, name: SideName, rows: GeneratedRows, competing_tokens: CompetingTokens
    ) -> None:
        self._own = ModelEmbeddings(model)
        self._side = side(model, name)
        self._scale = input_scale(model, self._side)
        self._rows = rows
        self._rivals = competing_tokens

    def extends(self, name: SideName) -> bool:
        return name == self._side.name

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        if not self.extends(name):
            return self._own.read(name, ids)
        return {"inputs_embeds": self._embedded(self._side.input, ids)}

    def _embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Rows depend on their generator even where no id is new, so that there always is a gradient.

        Workers of which some have new tokens and some have none must pass backward through the same layers, or those
        that ZeRO 3 shards wait forever.
        """
        size = embedding.weight.shape[0]
        is_new = ids >= size
        # What the embedding module itself does of that is done.
        outside = self._scale / float(getattr(embedding, "embed_scale", 1.0))
        embedded: Tensor = embedding(torch.where(is_new, 0, ids)) * outside
        if len(self._rows) == 0:
            return embedded + self._rows.zero().to(embedded.dtype)
        generated = self._rows.of("input", embedding.weight) * self._scale
        rows = generated[torch.where(is_new, ids - size, 0)]
        return torch.where(is_new[..., None], rows.to(embedded.dtype), embedded)

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        if self._side.output is None or len(self._rows) == 0:
            return self._own.cross_entropy(states, labels, label_smoothing)
        output, bias = self._side.output.weight, self._side.bias
        picked, gold = counted_states(states, labels, self._side)
        known = nn.functional.linear(picked, output).float()
        generated = nn.functional.linear(picked, self._rows.of("output", output)).float()
        if bias is not None:
            known = known + bias.reshape(-1)
            generated = generated + self._rows.of("bias", bias.reshape(-1, 1)).reshape(-1)
        own = self._rivals.own[:, None, :].expand(-1, labels.shape[1], -1)[labels != IGNORED]
        known = known.index_fill(1, self._rivals.absent, -torch.inf)
        generated = generated + self._rivals.weights
        known, own = without_twins(known, own, gold, self._rivals.spelling)
        return extended_cross_entropy(known, generated, own, gold, label_smoothing)


def counted_states(states: Tensor, labels: Tensor, decoder: Side) -> tuple[Tensor, Tensor]:
    """States [N, d] of the labels [N] that count, ready for the output projection."""
    counted = labels != IGNORED
    picked = states[counted] if decoder.transform is None else decoder.transform(states[counted])
    return picked, labels[counted]
