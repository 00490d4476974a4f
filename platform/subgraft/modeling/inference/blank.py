"""Sources that say nothing: whatever a model would write for one is no translation of it."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def is_blank(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether a text is white space alone, or nothing of it is left in the vocabulary. ids: those of the text."""
    return not text.strip() or all(tokenizer.pieces[token] == tokenizer.mark.value for token in ids)
