"""What turns a source into states that a language model can read: one module for each kind of source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from subgraft.conditioning.source_decoder import sinusoids


class SourceEncoder(nn.Module):
    """Gives states [B, S, d] at the scale of normed hidden states, d the language model's width."""

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **others: Any) -> BaseModelOutput:
        """As transformers' generate calls an encoder. input_ids: a source's tensor, whatever it is of."""
        del others
        return BaseModelOutput(last_hidden_state=self.states(input_ids, attention_mask))


class TextEncoder(SourceEncoder):
    """A Transformer encoder (Vaswani et al., 2017) over token ids [B, S], with a table of its own."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        width = self.table.embedding_dim
        embedded = self.table(inputs) * math.sqrt(width) + sinusoids(0, inputs.shape[1], width, inputs.device)
        hidden = mask == 0
        # Where nothing is visible, all is: a softmax needs something, and nobody reads what comes of it.
        hidden = hidden & ~hidden.all(1, keepdim=True)
        encoded: Tensor = self.layers(embedded, src_key_padding_mask=hidden)
        return encoded


class PretrainedTextEncoder(SourceEncoder):
    """The encoder of a pretrained model over its token ids [B, S]; its states are mapped to the language model's width.

    model: the config.json of the whole model, of a type that transformers knows.
    """

    def __init__(self, model: Mapping[str, Any], states: int, width: int) -> None:
        super().__init__()
        given = {name: value for name, value in model.items() if name != "model_type"}
        config = AutoConfig.for_model(model["model_type"], **given)
        build: Any = AutoModel
        self.encoder = encoder_of(build.from_config(config))
        if hasattr(self.encoder, "pooler"):  # which reads no state but the first
            self.encoder.pooler = None
        self.read = nn.Linear(states, width)
        self.norm = nn.LayerNorm(width)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        # Where nothing is visible, all is, as above.
        visible = mask | (mask == 0).all(1, keepdim=True)
        encoded = self.encoder(input_ids=inputs, attention_mask=visible).last_hidden_state
        rows: Tensor = self.norm(self.read(encoded))
        return rows


def encoder_of(model: PreTrainedModel) -> Any:
    """The encoder of an encoder-decoder, or a model of one stack itself, without what it was pretrained by."""
    return model.get_encoder() if model.config.is_encoder_decoder else model.base_model


class ClassEncoder(SourceEncoder):
    """Vectors of each class [B, 1] of some classes, `vectors` of them, which are the source's rows."""

    def __init__(self, classes: int, width: int, vectors: int) -> None:
        super().__init__()
        self._vectors = vectors
        self.table = nn.Embedding(classes, vectors * width)
        nn.init.normal_(self.table.weight)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        del mask
        rows: Tensor = self.table(inputs[:, 0]).unflatten(-1, (self._vectors, -1))
        return rows


class FeatureEncoder(SourceEncoder):
    """Rows of features [B, S, k], each mapped to a state by itself: a source of features is a set, not a sequence."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        del mask
        rows: Tensor = self.norm(self.read(inputs.to(self.read.weight.dtype)))
        return rows


def memory_mask(mask: Tensor, states: Tensor) -> Tensor:
    """The mask of encoded rows [B, S], where an encoder makes several rows of one of the source's."""
    if states.shape[1] == mask.shape[1]:
        return mask
    return torch.repeat_interleave(mask, states.shape[1] // mask.shape[1], dim=1)
