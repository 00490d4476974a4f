"""The tokens that end what a model writes: its tokenizer's end, and the others that its generation settings name."""

from __future__ import annotations

from typing import Any

from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def end_tokens(model: Any, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids that end an output: the tokenizer's end token, and others in the model's generation settings.

    The tokenizer's, which is used in training, comes first. An instruct model ends a turn with another token than a
    text. Ids that are not special tokens of the tokenizer are ignored.
    """
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    further = named if isinstance(named, list) else [named]
    ends = [tokenizer.special["eos"], *(token for token in further if token in tokenizer.special_ids)]
    return tuple(dict.fromkeys(ends))
