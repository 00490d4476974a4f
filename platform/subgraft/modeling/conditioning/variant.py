"""What every way of conditioning a language model is, and what it may know of that model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


class Heads(NamedTuple):
    """Of a causal language model: its layers, the heads of keys and values in each, and the numbers in a key."""

    layers: int
    heads: int
    size: int

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Heads:
        """By the names that transformers gives these sizes in every configuration."""
        queries = int(config.num_attention_heads)
        count = getattr(config, "num_key_value_heads", None) or queries
        size = getattr(config, "head_dim", None) or config.hidden_size // queries
        return cls(int(config.num_hidden_layers), int(count), int(size))


@dataclass(frozen=True)
class Memory:
    """A source as an encoder understood it: states [B, S, d], d the language model's width, and their mask [B, S], 1
    where there is one and 0 where a row only fills up the batch.

    tokens: what each row was made of, ids [B, S] of the decoder's vocabulary; None of a source that is read otherwise.
    """

    states: Tensor
    mask: Tensor
    tokens: Tensor | None = None


class Variant(nn.Module, ABC):
    """One way for a language model to read a source: its new parameters, without the model's own.

    frozen: whether the language model stays as it was pretrained.  pretrained: whether it is pretrained at all.
    """

    frozen: ClassVar[bool] = False
    pretrained: ClassVar[bool] = True

    @classmethod
    def prepare(cls, config: PreTrainedConfig) -> None:
        """Have the language model's configuration describe what this variant needs in it.

        Raises UserError for a model that cannot bear the variant.
        """

    def settle(self, language_model: PreTrainedModel) -> None:
        """Arrange the modules of a language model that was built from such a configuration."""

    @abstractmethod
    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        """Top states [B, T, d] of target tokens beside the source; the model's own table predicts from them.

        inputs: `input_ids` [B, T] or `inputs_embeds` [B, T, d] of the tokens behind those in the cache.
        """


def length_of(inputs: dict[str, Any]) -> tuple[int, int]:
    """B and T of `input_ids` or `inputs_embeds`."""
    given: Tensor = next(iter(inputs.values()))
    return given.shape[0], given.shape[1]


def attended(memory: Memory, targets: int) -> Tensor:
    """The mask [B, S + targets] of a source and of the target tokens behind it, none of which is hidden."""
    return torch.cat([memory.mask, memory.mask.new_ones(len(memory.mask), targets)], dim=1)


def all_targets(cache: EncoderDecoderCache | None, inputs: dict[str, Any]) -> Tensor:
    """The mask [B, T so far] of a target of which nothing is hidden: padding stands behind all that counts."""
    seen = 0 if cache is None else cache.get_seq_length()
    count, length = length_of(inputs)
    given: Tensor = next(iter(inputs.values()))
    return torch.ones(count, seen + length, dtype=torch.long, device=given.device)


def own_cache(cache: EncoderDecoderCache | None) -> DynamicCache:
    """The keys and values of the target so far; an empty one where none are kept."""
    return DynamicCache() if cache is None else cache.self_attention_cache
