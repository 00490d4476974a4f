"""All ways of conditioning, by name.

To add one: a module like `prepend.py` and, here, its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from subgraft.modeling.conditioning.variants.attention import ContextAttention, CrossAttention, FromScratch
from subgraft.modeling.conditioning.variants.prepend import Prepend
from subgraft.modeling.conditioning.variants.pseudo_self import PseudoSelf
from subgraft.modeling.conditioning.variants.representation import Representation
from subgraft.modeling.conditioning.variants.simple_fusion import SimpleFusion
from subgraft.modeling.conditioning.variants.variant import Variant

# In the order of documents and messages.
ENTRIES: tuple[Variant, ...] = (
    PseudoSelf(),
    ContextAttention(),
    CrossAttention(),
    Prepend(),
    SimpleFusion(),
    Representation(),
    FromScratch(),
)
VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in ENTRIES}

if TYPE_CHECKING:
    VariantName: TypeAlias = str
else:  # settings and their JSON schema accept exactly the names of the table
    VariantName = Literal[tuple(VARIANTS)]
