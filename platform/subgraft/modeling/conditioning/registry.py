"""The registry of variants: the ways of conditioning a language model, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

from subgraft.config.conditioning import VARIANTS, ConditioningSettings, VariantName
from subgraft.modeling.conditioning.context_attention import ContextAttention, FromScratch, SharedNormContextAttention
from subgraft.modeling.conditioning.prepend import Prepend
from subgraft.modeling.conditioning.pseudo_self import PseudoSelf
from subgraft.modeling.conditioning.representation import Representation
from subgraft.modeling.conditioning.simple_fusion import SimpleFusion
from subgraft.modeling.conditioning.variant import Variant

# Their properties for settings and plans are in `config.conditioning.VARIANTS`.
CLASSES: Mapping[VariantName, type[Variant]] = {
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
    kind: Any = CLASSES[settings.variant]
    if VARIANTS[settings.variant].frozen:
        sizes = settings.decoder
        made: Variant = kind(language_model, sizes.d_model, sizes.layers, sizes.attention_heads, sizes.dropout)
    else:
        made = kind(language_model)
    return made
