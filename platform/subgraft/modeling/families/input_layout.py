"""How a model that classifies reads one text or a pair of texts: the tokens around and between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from subgraft.data.text.truncation import longest_first

# The limit of inputs in tokens, for models without one; longer than any sentence.
DEFAULT_MAX_LENGTH = 8192


class LaidOut(NamedTuple):
    """Token ids as a model reads them.

    Attributes:
        ids: all tokens, including special ones.
        types: the segment of each token: 0, or 1 from the second text on in models with segments; 2 for a last token
            that is a separate segment.
        starts: the start of each text in `ids`.
        lengths: the number of tokens of each text that are included.
    """

    ids: list[int]
    types: list[int]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class InputLayout:
    """The tokens around one text and around two.

    Attributes:
        begin: the tokens before the first text.
        separator: the tokens between two texts.
        end: the tokens after the last text.
        segments: whether `token_type_ids` mark the tokens of the second text.
        longest: the maximum number of tokens that the model reads.
        last_segment: whether the last token is a separate segment, as XLNet's <cls> is.
    """

    begin: tuple[int, ...]
    separator: tuple[int, ...]
    end: tuple[int, ...]
    segments: bool
    longest: int
    last_segment: bool = False

    def single(self, ids: Sequence[int], longest: int | None = None) -> LaidOut:
        """One text, truncated at its end if it is too long. longest: a lower limit in tokens than the model's."""
        text = list(ids[: self.room(1, longest)])
        laid = [*self.begin, *text, *self.end]
        return LaidOut(laid, self._types(len(laid), 0), (len(self.begin),), (len(text),))

    def pair(self, first: Sequence[int], second: Sequence[int], longest: int | None = None) -> LaidOut:
        """Two texts; if they are too long, the longer one is truncated first, as in transformers."""
        lengths = longest_first(len(first), len(second), self.room(2, longest))
        opening = [*self.begin, *first[: lengths[0]], *self.separator]
        closing = [*second[: lengths[1]], *self.end]
        types = self._types(len(opening), len(closing))
        return LaidOut([*opening, *closing], types, (len(self.begin), len(opening)), lengths)

    def _types(self, opening: int, closing: int) -> list[int]:
        types = [0] * opening + [int(self.segments)] * closing
        return [*types[:-1], 2] if self.last_segment else types

    def room(self, texts: int, longest: int | None = None) -> int:
        """The maximum number of tokens of one text, or of two together, without special tokens."""
        limit = self.longest if longest is None else min(longest, self.longest)
        around = len(self.begin) + len(self.end) + (texts - 1) * len(self.separator)
        return max(0, limit - around)
