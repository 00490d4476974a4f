"""A vocabulary shared out among languages, and what any vocabulary has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.subwords.allocation.capacity import Capacity, capacity
from subgraft.interfaces.api.vocabularies import Text, VocabularyLike, text_lines, vocabulary_of
from subgraft.base.errors import UserError

if TYPE_CHECKING:
    from subgraft.experiments.allocation_session import AllocationSession


def capacities(vocabulary: VocabularyLike, texts: Mapping[str, Text]) -> dict[str, Capacity]:
    """What a vocabulary has for each language's text: ALP, tokens, and what it cannot spell.

    Raises UserError, naming the language, where there is no text.
    """
    tokenizer = vocabulary_of(vocabulary)
    found = {}
    for language, text in texts.items():
        try:
            found[language] = capacity(tokenizer, text_lines(text))
        except UserError as error:
            raise UserError(error.what, where=error.where or language, hint=error.hint) from error
    return found


def allocation_session(config: Path, overrides: Sequence[str] = ()) -> AllocationSession:
    """An allocation in the store of this place. Raises UserError with everything that is wrong."""
    from subgraft.config.allocation import Allocation
    from subgraft.config.loading import load

    settings = load(config, Allocation, overrides)
    from subgraft.experiments.allocation_session import AllocationSession  # after the configuration's mistakes

    return AllocationSession(settings, config.absolute().parent)
