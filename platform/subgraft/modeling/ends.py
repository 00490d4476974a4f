"""The tokens that end what a model writes: its tokenizer's end, and the others that its generation settings name."""

from __future__ import annotations

from typing import Any

from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def end_tokens(model: Any, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids, the tokenizer's own end first, which is the one that texts are trained with.

    An instruct model ends a turn with one token and a text with another. An id that is no special token of the
    tokenizer is none of its ends.
    """
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    further = named if isinstance(named, list) else [named]
    ends = [tokenizer.special["eos"], *(token for token in further if token in tokenizer.special_ids)]
    return tuple(dict.fromkeys(ends))
