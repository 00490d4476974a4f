"""Model families: a module for each, and the registry. Importing this needs neither torch nor transformers."""

from subgraft.modeling.families.family import NO_ENTITY, Family
from subgraft.modeling.families.heads import Head, head_in
from subgraft.modeling.families.input_layout import DEFAULT_MAX_LENGTH, InputLayout, LaidOut
from subgraft.modeling.families.model_parts import Config, Parameters, Side, Tables, TableSize
from subgraft.modeling.families.registry import (
    FAMILIES,
    as_both_sides,
    config_dict,
    count_parameters,
    family_named,
    family_of,
    is_known,
    vocabulary_sizes,
    with_next_sentence,
    with_vocabularies,
)
from subgraft.modeling.families.sequence_format import (
    BEFORE_SOURCE,
    MissingCodeError,
    SequenceFormat,
    is_same_language,
    language_code,
    new_code,
    require_marked_targets,
)

__all__ = [
    "BEFORE_SOURCE",
    "DEFAULT_MAX_LENGTH",
    "FAMILIES",
    "NO_ENTITY",
    "Config",
    "Family",
    "Head",
    "InputLayout",
    "LaidOut",
    "MissingCodeError",
    "Parameters",
    "SequenceFormat",
    "Side",
    "TableSize",
    "Tables",
    "as_both_sides",
    "config_dict",
    "count_parameters",
    "family_named",
    "family_of",
    "head_in",
    "is_known",
    "is_same_language",
    "language_code",
    "new_code",
    "require_marked_targets",
    "vocabulary_sizes",
    "with_next_sentence",
    "with_vocabularies",
]
