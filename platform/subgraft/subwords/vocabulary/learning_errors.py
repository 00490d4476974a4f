"""Errors of learning a vocabulary, in the user's terms."""

from __future__ import annotations

from subgraft.base.errors import UserError


class TooLargeError(UserError):
    """The text does not support so many pieces.

    Attributes:
        possible: The largest vocabulary that the text supports, all special tokens included.
    """

    possible: int

    @classmethod
    def of(cls, what: str, possible: int, hint: str) -> TooLargeError:
        error = cls(what, hint=hint)
        error.possible = possible
        return error


def too_large(requested: int, possible: int) -> TooLargeError:
    what = f"the text does not support a vocabulary of {requested} pieces: {possible} is the largest it can give"
    return TooLargeError.of(what, possible, f"Ask for at most {possible} pieces, or learn from more text.")


def too_rare(requested: int, min_count: int, possible: int) -> TooLargeError:
    return TooLargeError.of(
        f"the text does not support a vocabulary of {requested} pieces that are each used at least {min_count} times: "
        f"the largest has {possible}",
        possible,
        f"Ask for {possible} pieces, lower min_count, or learn from more text.",
    )


def too_small(requested: int, required: int, byte_fallback: bool = False) -> UserError:
    bytes_too = "; 256 of them are the bytes, which byte_fallback adds" if byte_fallback else ""
    return UserError(
        f"a vocabulary of {requested} pieces has no room for the special tokens and the text's characters: "
        f"they are {required} or more{bytes_too}",
        hint=f"Ask for at least {required} pieces, or lower character_coverage"
        + (" or do without byte_fallback." if byte_fallback else "."),
    )


def no_room_for_bytes(requested: int, required: int) -> UserError:
    return UserError(
        f"a vocabulary of {requested} pieces has no room for the 256 bytes and the special tokens: they are {required}",
        hint=f"Ask for at least {required} pieces.",
    )


def empty_corpus() -> UserError:
    return UserError("there is no text to learn a vocabulary from", hint="Give at least one line that is not blank.")
