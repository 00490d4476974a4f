"""Model families: a module for each, and the registry. Importing this needs neither torch nor transformers."""

from subgraft.modeling.families.family import Family
from subgraft.modeling.families.model_parts import (
    BEFORE_SOURCE,
    Config,
    Parameters,
    SequenceFormat,
    Side,
    Tables,
    TableSize,
    language_code,
)
from subgraft.modeling.families.registry import FAMILIES, family_named, family_of, is_known

__all__ = [
    "BEFORE_SOURCE",
    "FAMILIES",
    "Config",
    "Family",
    "Parameters",
    "SequenceFormat",
    "Side",
    "TableSize",
    "Tables",
    "family_named",
    "family_of",
    "is_known",
    "language_code",
]
