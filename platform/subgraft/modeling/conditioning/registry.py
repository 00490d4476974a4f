"""The registry of variants: the ways of conditioning a language model, by name."""

from __future__ import annotations

from collections.abc import Mapping

from transformers import PreTrainedConfig

from subgraft.config.conditioning import ConditioningSettings, VariantName
from subgraft.modeling.conditioning.context_attention import ContextAttention, FromScratch, SharedNormContextAttention
from subgraft.modeling.conditioning.prepend import Prepend
from subgraft.modeling.conditioning.pseudo_self import PseudoSelf
from subgraft.modeling.conditioning.representation import Representation
from subgraft.modeling.conditioning.simple_fusion import SimpleFusion
from subgraft.modeling.conditioning.variant import Variant

VARIANTS: Mapping[VariantName, type[Variant]] = {
    "pseudo-self": PseudoSelf,
    "context-attention": SharedNormContextAttention,
    "cross-attention": ContextAttention,
    "prepend": Prepend,
    "simple-fusion": SimpleFusion,
    "representation": Representation,
    "none": FromScratch,
}


def variant(settings: ConditioningSettings, language_model: PreTrainedConfig) -> Variant:
    """The variant's new parameters for a language model of this configuration, drawn from torch's generator."""
    kind = VARIANTS[settings.variant]
    if kind.frozen:  # and so with a decoder of its own
        sizes = settings.decoder
        return kind(language_model, sizes.d_model, sizes.layers, sizes.attention_heads, sizes.dropout)
    return kind(language_model)
