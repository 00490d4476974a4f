"""The interface of a variant, a way of conditioning a language model, and helpers for masks and caches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


class Heads(NamedTuple):
    """A language model's number of layers, of key-value heads in each, and the size of a key."""

    layers: int
    heads: int
    size: int

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Heads:
        """Read from the attributes that all transformers configurations have in common."""
        queries = int(config.num_attention_heads)
        count = getattr(config, "num_key_value_heads", None) or queries
        size = getattr(config, "head_dim", None) or config.hidden_size // queries
        return cls(int(config.num_hidden_layers), int(count), int(size))


@dataclass(frozen=True)
class Memory:
    """An encoded source.

    Attributes:
        states: [B, S, d], where d is the language model's width.
        mask: [B, S], 0 for padding.
        tokens: Ids [B, S] in the decoder's vocabulary; None for other sources.
    """

    states: Tensor
    mask: Tensor
    tokens: Tensor | None = None


class Variant(nn.Module, ABC):
    """The base of variants. It has the new parameters with which a language model reads a source.

    config: the language model's configuration.

    pretrained: whether the language model is pretrained.
    """

    pretrained: ClassVar[bool] = True

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()

    @classmethod
    def prepare(cls, config: PreTrainedConfig) -> None:
        """Set the entries of the language model's configuration that this variant needs.

        Raises UserError for a model that does not support the variant.
        """

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        """Adapt the modules of a language model that was built from a prepared configuration."""

    @abstractmethod
    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        """Top states [B, T, d] of target tokens given the source; the model's output projection reads them.

        inputs: `input_ids` [B, T] or `inputs_embeds` [B, T, d] of the tokens after those in the cache.
        """


def input_embeddings(language_model: PreTrainedModel, inputs: dict[str, Any]) -> Tensor:
    """`inputs_embeds` [B, T, d], or the embeddings of `input_ids`."""
    embedded: Tensor | None = inputs.get("inputs_embeds")
    return language_model.get_input_embeddings()(inputs["input_ids"]) if embedded is None else embedded


def batch_shape(inputs: dict[str, Any]) -> tuple[int, int]:
    """B and T of `input_ids` or `inputs_embeds`."""
    tensor: Tensor = next(iter(inputs.values()))
    return tensor.shape[0], tensor.shape[1]


def mask_of_source_and_target(memory: Memory, targets: int) -> Tensor:
    """The mask [B, S + targets] of a source and the target tokens after it, all of which are visible."""
    return torch.cat([memory.mask, memory.mask.new_ones(len(memory.mask), targets)], dim=1)


def target_mask(cache: EncoderDecoderCache | None, inputs: dict[str, Any]) -> Tensor:
    """The mask of the target tokens so far [B, T]. All are visible: padding follows the tokens that are used."""
    seen = 0 if cache is None else cache.get_seq_length()
    count, length = batch_shape(inputs)
    tensor: Tensor = next(iter(inputs.values()))
    return torch.ones(count, seen + length, dtype=torch.long, device=tensor.device)


def target_cache(cache: EncoderDecoderCache | None) -> DynamicCache:
    """The cache of the target's keys and values; an empty one if there is no cache."""
    return DynamicCache() if cache is None else cache.self_attention_cache
