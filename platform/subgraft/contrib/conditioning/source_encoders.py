"""Source encoders, one for each kind of source: they map a source to states that a language model can read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from subgraft.contrib.conditioning.source_decoder import sinusoids


@dataclass
class EncodedSource(BaseModelOutput):
    """An encoder's output. tokens: the source's ids [B, S] if they are in the decoder's vocabulary."""

    tokens: Tensor | None = None


class SourceEncoder(nn.Module):
    """Computes states [B, S, d] at the scale of normed hidden states; d is the language model's width.

    own_tokens: whether a source consists of ids in the decoder's vocabulary.
    """

    own_tokens: ClassVar[bool] = False

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **others: Any) -> EncodedSource:
        """The call of transformers' `generate`. input_ids: the source's tensor, which need not be ids."""
        del others
        tokens = input_ids if self.own_tokens else None
        return EncodedSource(last_hidden_state=self.states(input_ids, attention_mask), tokens=tokens)


class TextEncoder(SourceEncoder):
    """A Transformer encoder (Vaswani et al., 2017) over token ids [B, S], with its own embeddings."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.layers = _make_layers(width, layers, heads, dropout)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return _encode(self.layers, self.table(inputs) * math.sqrt(self.table.embedding_dim), mask)


class SourceTable(SourceEncoder):
    """The language model's embeddings of ids in its vocabulary; they are not parameters of this module."""

    own_tokens = True

    def __init__(self, language_model: PreTrainedModel) -> None:
        super().__init__()
        object.__setattr__(self, "_language_model", language_model)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        del mask
        language_model: Any = self._language_model
        rows: Tensor = language_model.get_input_embeddings()(inputs)
        return rows


class TrainedTextEncoder(SourceEncoder):
    """A Transformer encoder over the language model's embeddings, which are normed first as their scale may vary."""

    own_tokens = True

    def __init__(self, language_model: PreTrainedModel, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.table = SourceTable(language_model)
        self.norm = nn.LayerNorm(width)
        self.layers = _make_layers(width, layers, heads, dropout)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return _encode(self.layers, self.norm(self.table.states(inputs, mask)), mask)


class PretrainedTextEncoder(SourceEncoder):
    """The encoder of a pretrained model over its token ids [B, S]; its states are mapped to the language model's width.

    model: config.json of the complete model, of a type that transformers supports.
    """

    def __init__(self, model: Mapping[str, Any], states: int, width: int) -> None:
        super().__init__()
        entries = {name: value for name, value in model.items() if name != "model_type"}
        config = AutoConfig.for_model(model["model_type"], **entries)
        build: Any = AutoModel
        self.encoder = encoder_of(build.from_config(config))
        if hasattr(self.encoder, "pooler"):  # its output is not used
            self.encoder.pooler = None
        self.read = nn.Linear(states, width)
        self.norm = nn.LayerNorm(width)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        # A completely masked source is visible, as in `_encode`.
        visible = mask | (mask == 0).all(1, keepdim=True)
        encoded = self.encoder(input_ids=inputs, attention_mask=visible).last_hidden_state
        rows: Tensor = self.norm(self.read(encoded))
        return rows


def encoder_of(model: PreTrainedModel) -> Any:
    """The encoder of an encoder-decoder, or the single stack of a model without its pretraining head."""
    return model.get_encoder() if model.config.is_encoder_decoder else model.base_model


class ClassEncoder(SourceEncoder):
    """`vectors` embeddings of each class [B, 1], which are the source's rows."""

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
    """Rows of features [B, S, k], each mapped to a state independently: features are a set, not a sequence."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)

    def states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        del mask
        rows: Tensor = self.norm(self.read(inputs.to(self.read.weight.dtype)))
        return rows


def _make_layers(width: int, layers: int, heads: int, dropout: float) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)


def _encode(layers: nn.TransformerEncoder, embedded: Tensor, mask: Tensor) -> Tensor:
    """Top states [B, S, d] of embedded tokens [B, S, d]; positions are added here."""
    with_positions = embedded + sinusoids(0, embedded.shape[1], embedded.shape[2], embedded.device)
    is_padding = mask == 0
    # A completely masked source is visible, because a softmax over nothing is NaN. The result is not used.
    is_padding = is_padding & ~is_padding.all(1, keepdim=True)
    encoded: Tensor = layers(with_positions, src_key_padding_mask=is_padding)
    return encoded


def memory_mask(mask: Tensor, states: Tensor) -> Tensor:
    """The mask of encoded rows, if the encoder outputs several rows for each row of the source."""
    if states.shape[1] == mask.shape[1]:
        return mask
    return torch.repeat_interleave(mask, states.shape[1] // mask.shape[1], dim=1)
