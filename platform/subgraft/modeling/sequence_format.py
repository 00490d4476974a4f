"""The special tokens around source and target, and how the decoder starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subgraft.modeling.families import Config, SequenceFormat, family_of, language_code

if TYPE_CHECKING:
    from subgraft.config.corpora import Languages
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

__all__ = ["SequenceFormat", "language_code", "sequence_format"]


def sequence_format(
    config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
) -> SequenceFormat:
    """The form of a model's sequences, by its configuration and the tokenizers that it is read with.

    Raises UserError where a tokenizer lacks a token that is needed, or a language is needed and none is given.
    """
    return family_of(config).sequence_format(config, source, target, languages)
