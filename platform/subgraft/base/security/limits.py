"""Limits of files from elsewhere: above any legitimate use, and low enough to protect the machine.

The limits of formats that are read often are raised by an environment variable, which the error message names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from subgraft.base.errors import UserError

# The size of a configuration file, and the number of its values with all aliases expanded.
CONFIGURATION_BYTES = 1024**2
CONFIGURATION_VALUES = 100_000
# The nesting depth of YAML and JSON, into which parsers recurse.
MAX_NESTING = 64
# SQuAD's JSON, where every question is processed with its whole passage.
PASSAGE_CHARACTERS = 200_000
PASSAGE_QUESTIONS = 1000


@dataclass(frozen=True)
class Limit:
    """A maximum (for a speed, a minimum), which an environment variable can change; its unit is for messages."""

    variable: str
    default: int
    unit: str

    @property
    def value(self) -> int:
        """The limit. Raises UserError if the variable is not a positive whole number."""
        setting = os.environ.get(self.variable)
        if setting is None:
            return self.default
        if not (setting.isdecimal() and len(setting) <= 18 and int(setting)):
            raise UserError(f"expected a positive whole number, found {setting!r:.40}", where=self.variable)
        return int(setting)

    @property
    def hint(self) -> str:
        """How to change the limit, for the hint of an error."""
        return f"The limit is {self.value:,} {self.unit}; {self.variable} sets another one."


# The largest published vocabularies have some 900,000 pieces.
PIECES = Limit("SUBGRAFT_MAX_PIECES", 1 << 20, "pieces of a vocabulary, and token ids below that")
PIECE_LENGTH = Limit("SUBGRAFT_MAX_PIECE_LENGTH", 4096, "characters of a piece")
ADDED_TOKENS = Limit("SUBGRAFT_MAX_ADDED_TOKENS", 1 << 17, "added tokens of a vocabulary")
TOKENIZER_BYTES = Limit(
    "SUBGRAFT_MAX_TOKENIZER_PART", 1 << 20, "bytes of a normalizer, pre-tokenizer, post-processor or decoder"
)
TOKENIZER_STEPS = Limit("SUBGRAFT_MAX_TOKENIZER_STEPS", 64, "steps of a normalizer, pre-tokenizer or decoder")
# Published vocabularies could make some 2,000 (ALBERT, by the worst case of each step).
TEXT_GROWTH = Limit("SUBGRAFT_MAX_TEXT_GROWTH", 8192, "bytes that normalizer and pre-tokenizer may make of one")
DECODED_GROWTH = Limit("SUBGRAFT_MAX_DECODED_GROWTH", 16, "bytes that a decoder may make of one")
TOKENS_OF_CHARACTER = Limit("SUBGRAFT_MAX_TOKENS_OF_CHARACTER", 64, "tokens for each character of a text")
JSON_BYTES = Limit("SUBGRAFT_MAX_JSON_BYTES", 256 << 20, "bytes of a JSON or vocabulary file")
MODEL_LAYERS = Limit("SUBGRAFT_MAX_LAYERS", 1 << 10, "layers or heads of a model")
MODEL_WIDTH = Limit("SUBGRAFT_MAX_WIDTH", 1 << 20, "numbers across a layer of a model")
MODEL_POSITIONS = Limit("SUBGRAFT_MAX_POSITIONS", 1 << 24, "positions of a model")
MODEL_LABELS = Limit("SUBGRAFT_MAX_LABELS", 1 << 16, "labels of a model")
DOWNLOAD_BYTES = Limit("SUBGRAFT_DOWNLOAD_MAX_BYTES", 4 << 30, "bytes of one download")
DOWNLOAD_SECONDS = Limit("SUBGRAFT_DOWNLOAD_MAX_SECONDS", 6 * 3600, "seconds for one download")
DOWNLOAD_SPEED = Limit("SUBGRAFT_DOWNLOAD_MIN_SPEED", 1024, "bytes a second at least, over half a minute")
CONVERSION_SECONDS = Limit(
    "SUBGRAFT_CONVERT_MAX_SECONDS", 30, "seconds of processor time for each gigabyte of weights, and for a part of one"
)
CONVERSION_MEMORY = Limit(
    "SUBGRAFT_CONVERT_MAX_MEMORY", 512 << 20, "bytes of memory beyond four times the largest file of weights"
)
CHAT_SECONDS = Limit("SUBGRAFT_CHAT_MAX_SECONDS", 5, "seconds of processor time for a conversation")
CHAT_MEMORY = Limit("SUBGRAFT_CHAT_MAX_MEMORY", 256 << 20, "bytes of memory for a conversation")
CHAT_TEXT = Limit("SUBGRAFT_CHAT_MAX_TEXT", 1 << 20, "characters that a template may add to a conversation")
