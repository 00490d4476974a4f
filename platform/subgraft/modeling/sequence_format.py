"""The special tokens around source and target, the tokens that end an output, and a checkpoint's languages."""

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
    """The special tokens around a model's sequences, from its configuration and these tokenizers.

    Raises UserError if a tokenizer lacks a required token, or languages are required and not configured.
    """
    return family_of(config).sequence_format(config, source, target, languages)
