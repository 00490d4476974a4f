"""The length of text in a vocabulary's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.modeling.bundle import Bundle


@dataclass(frozen=True)
class Length:
    """Mean tokens per sentence, with the end of sentence, and mean characters per token, without it."""

    tokens_per_sentence: float
    characters_per_token: float


def measure_length(bundle: Bundle, references: Sequence[str]) -> Length:
    """The length of the references in tokens of the decoder's vocabulary."""
    tokens = sum(map(len, bundle.decoder.encode_batch(references)))
    return Length(tokens / len(references) + 1, count_characters(references) / max(1, tokens))
