"""What the real new tokens of a task are like, to simulate others like them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.subwords.similar_tokens.finder import Fallback, Relation, SimilarTokenFinder
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class TokenProfile(NamedTuple):
    """Whether a new token begins a word, its characters, and how many subwords and hyperwords it has upstream."""

    word_initial: bool
    characters: int
    subwords: int
    hyperwords: int


def profiles_of(source: Tokenizer, target: Tokenizer, max_similar: int) -> list[TokenProfile]:
    """Profiles of the target vocabulary's new subwords, of those that the source vocabulary cuts into ordinary tokens.

    Raises UserError where there are none: then nothing can be simulated like them.
    """
    entries = [entry for token in align(source, target).unseen if (entry := target.entries[token]) is not None]
    found = SimilarTokenFinder(source, max_similar).find(entries)
    rows = np.repeat(np.arange(len(entries)), np.diff(found.offsets))
    hyperword = found.relations >= Relation.PREFIX_HYPERWORD
    subwords, hyperwords = (np.bincount(rows[chosen], minlength=len(entries)) for chosen in (~hyperword, hyperword))
    cut = (found.fallback == Fallback.NONE) & (subwords > 0)
    if not cut.any():
        raise UserError(
            "the task's vocabulary has no new subword to simulate others by",
            where="generator.resegmentation.match",
            hint="Leave match out, or learn the task's vocabulary from its own text.",
        )
    return [
        TokenProfile(entries[i].word_initial, len(entries[i].surface), int(subwords[i]), int(hyperwords[i]))
        for i in np.flatnonzero(cut)
    ]
