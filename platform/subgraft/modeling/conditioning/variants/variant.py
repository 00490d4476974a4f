"""The interface of a variant, a way of conditioning a language model, and helpers for masks and caches.

Configurations and plans import the variants, so torch is imported by the methods that compute with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from subgraft.config.settings_base import Settings

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedConfig, PreTrainedModel

Layers = Annotated[int, Field(ge=1, le=256)]
Width = Annotated[int, Field(ge=2, le=65536)]


class StackSettings(Settings):
    """A separate Transformer stack.

    d_model: the size of its states, a multiple of attention_heads.
    layers: the number of layers.
    attention_heads: the number of heads in each layer.
    dropout: dropout of the output of each sublayer.
    """

    d_model: Width = 512
    layers: Layers = 6
    attention_heads: Annotated[int, Field(ge=1, le=1024)] = 8
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1

    @model_validator(mode="after")
    def _divides(self) -> StackSettings:
        if self.d_model % self.attention_heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of the {self.attention_heads} attention_heads")
        return self


class PartCounts(NamedTuple):
    """Numbers of parameters of the parts that a variant may add to a language model.

    Attributes:
        layers: The number of the language model's layers.
        attention: An attention of the language model's width.
        norm: A norm of that width.
        keys_and_values: The map from source states to a layer's keys and values.
        read: The map from the language model's width to the decoder's.
        decoder: The decoder that reads the source, with the map back.
        decoder_norm: A norm of the decoder's width.
    """

    layers: int
    attention: int
    norm: int
    keys_and_values: int
    read: int
    decoder: int
    decoder_norm: int


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


class Variant:
    """A way in which a language model reads a source.

    name: the value of `conditioning` that selects it.
    in_layers: whether it adds an attention to the layers of the language model.
    in_input: whether the source is in the language model's input, read through its embeddings and counted in positions.
    frozen: whether the language model is not trained; a decoder next to it then reads the source.
    pretrained: whether the language model is pretrained.
    """

    name: ClassVar[str]
    in_layers: ClassVar[bool] = False
    in_input: ClassVar[bool] = False
    frozen: ClassVar[bool] = False
    pretrained: ClassVar[bool] = True

    def parameters(self, count: PartCounts) -> int:
        """The number of its new parameters, without those of the source's encoder."""
        raise NotImplementedError

    def prepare(self, config: PreTrainedConfig) -> None:
        """Set the entries of the language model's configuration that this variant needs.

        Raises UserError for a model that does not support the variant.
        """

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        """Adapt the modules of a language model that was built from a prepared configuration."""

    def add_modules(self, parts: Any, config: PreTrainedConfig, decoder: StackSettings) -> None:
        """Make the new parameters, outside of the language model, attributes of the module `parts`.

        Args:
            parts: The module of the new parameters, which `states` gets.
            config: The language model's configuration.
            decoder: The sizes of a decoder next to the language model.
        """

    def states(
        self,
        parts: Any,
        language_model: PreTrainedModel,
        memory: Memory,
        cache: EncoderDecoderCache | None,
        **inputs: Tensor,
    ) -> Tensor:
        """Top states [B, T, d] of target tokens given the source; the model's output projection reads them.

        inputs: `input_ids` [B, T] or `inputs_embeds` [B, T, d] of the tokens after those in the cache.
        """
        raise NotImplementedError


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
    import torch

    return torch.cat([memory.mask, memory.mask.new_ones(len(memory.mask), targets)], dim=1)


def target_mask(cache: EncoderDecoderCache | None, inputs: dict[str, Any]) -> Tensor:
    """The mask of the target tokens so far [B, T]. All are visible: padding follows the tokens that are used."""
    import torch

    seen = 0 if cache is None else cache.get_seq_length()
    count, length = batch_shape(inputs)
    tensor: Tensor = next(iter(inputs.values()))
    return torch.ones(count, seen + length, dtype=torch.long, device=tensor.device)


def target_cache(cache: EncoderDecoderCache | None) -> DynamicCache:
    """The cache of the target's keys and values; an empty one if there is no cache."""
    from transformers import DynamicCache

    return DynamicCache() if cache is None else cache.self_attention_cache


def states_after_source(
    language_model: PreTrainedModel,
    memory: Memory,
    keys: Cache,
    targets: int,
    positions: Tensor,
    inputs: dict[str, Tensor],
) -> Tensor:
    """Top states of inputs whose keys and values follow the source's. targets: the number of target tokens so far."""
    top: Tensor = language_model.base_model(
        attention_mask=mask_of_source_and_target(memory, targets),
        position_ids=positions,
        past_key_values=keys,
        use_cache=True,
        **inputs,
    ).last_hidden_state
    return top
