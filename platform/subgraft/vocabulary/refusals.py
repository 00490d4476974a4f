"""Why a vocabulary cannot be learnt from a corpus, in the user's terms."""

from __future__ import annotations

from subgraft.errors import UserError


def too_large(asked: int, possible: int) -> UserError:
    return UserError(
        f"the text does not support a vocabulary of {asked} pieces: {possible} is the largest it can give",
        mend=f"Ask for at most {possible} pieces, or learn from more text.",
    )


def too_small(asked: int, needed: int) -> UserError:
    return UserError(
        f"a vocabulary of {asked} pieces has no room for the special tokens and the text's characters: "
        f"they are {needed} or more",
        mend=f"Ask for more than {needed} pieces, or lower character_coverage.",
    )


def empty_corpus() -> UserError:
    return UserError("there is no text to learn a vocabulary from", mend="Give at least one line that is not blank.")
