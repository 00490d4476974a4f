"""All ways of conditioning, by name.

To add one: a module like `contrib/conditioning/prepend.py` and, here, its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from subgraft.base.entries import imported
from subgraft.modeling.conditioning.variants.variant import Variant

# In the order of documents and messages.
ENTRIES: tuple[Variant, ...] = (
    imported("subgraft.contrib.conditioning.pseudo_self:PseudoSelf")(),
    imported("subgraft.contrib.conditioning.attention:ContextAttention")(),
    imported("subgraft.contrib.conditioning.attention:CrossAttention")(),
    imported("subgraft.contrib.conditioning.prepend:Prepend")(),
    imported("subgraft.contrib.conditioning.simple_fusion:SimpleFusion")(),
    imported("subgraft.contrib.conditioning.representation:Representation")(),
    imported("subgraft.contrib.conditioning.attention:FromScratch")(),
)
VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in ENTRIES}

if TYPE_CHECKING:
    VariantName: TypeAlias = str
else:  # settings and their JSON schema accept exactly the names of the table
    VariantName = Literal[tuple(VARIANTS)]
