"""The words of a text, as a vocabulary cuts each by itself, and how often the text has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import tokenizers

from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.tokenizer_checks import refusing

# A word with the marks before it, for vocabularies that are given whole lines.
_MARKED = re.compile(f"{SPACE_MARK}*[^{SPACE_MARK}]+|{SPACE_MARK}+")


def word_counts(backend: tokenizers.Tokenizer, lines: Iterable[str]) -> Counter[str]:
    """How often the text has each word: what is cut by itself, a line where there are no spaces.

    Words are normalised, and marked as the vocabulary marks them.
    """
    words: Counter[str] = Counter()
    normalizer, pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    for line in lines:
        normal = line if normalizer is None else normalizer.normalize_str(line)
        parts = [normal] if pre_tokenizer is None else [part for part, _ in pre_tokenizer.pre_tokenize_str(normal)]
        for part in parts:
            words.update(_MARKED.findall(part) if SPACE_MARK in part[1:] else [part])
    del words[""]
    return words


def cut_words(backend: tokenizers.Tokenizer, words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The pieces of each word; what the vocabulary cannot spell is its unknown token.

    Raises UserError for such text where the vocabulary has no unknown token either.
    """
    model = backend.model
    with refusing("this vocabulary cannot cut the text"):
        # By id: the value of an unknown token is, in a unigram vocabulary, the text that it stands for.
        return {word: tuple(model.id_to_token(token.id) for token in model.tokenize(word)) for word in words}
