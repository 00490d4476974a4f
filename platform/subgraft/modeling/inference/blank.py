"""Sources that say nothing: whatever a model would write for one is no translation of it."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def is_blank(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether a source is white space only, or the vocabulary covers none of it, so that its output must be empty.

    ids: the text's token ids.
    """
    return not text.strip() or all(tokenizer.pieces[token] == tokenizer.mark.value for token in ids)
