"""Re-segmentation of upstream sentences: unseen tokens are simulated inside words (Liu et al., 2021, section 3.2).

Neighbouring tokens of a word are merged (ima + ##gine -> imagine) and tokens are split at a random character
(nothing -> noth + ##ing). Nothing ever crosses a word boundary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer


@dataclass(frozen=True)
class Span:
    """A smallest span at whose ends both segmentations agree: half-open token ranges of each."""

    original: tuple[int, int]
    resegmented: tuple[int, int]


@dataclass(frozen=True)
class SimulatedToken:
    """A token that is treated as if the upstream vocabulary lacked it.

    Attributes:
        entry: its spelling.
        subwords: number of subwords of its cheapest segmentation; None: as for a real new token.
        hyperwords: maximum number of its hyperwords; None: as for a real new token.
    """

    entry: Entry
    subwords: int | None = None
    hyperwords: int | None = None


@dataclass(frozen=True)
class Resegmentation:
    """A re-segmented sentence.

    Attributes:
        tokens: ids; those from the vocabulary's size V on are new[id - V].
        new: the simulated tokens, each once.
        spans: the smallest spans on which the two segmentations agree, in order (Figure 2 of the paper has six).
    """

    tokens: list[int]
    new: list[SimulatedToken]
    spans: list[Span]


class Resegmenter:
    """Re-segments sentences of one vocabulary at the rates of its settings."""

    def __init__(self, tokenizer: Tokenizer, settings: ResegmentationSettings) -> None:
        self.settings = settings
        self._entries = tokenizer.word_entries
        self._ids = tokenizer.ids
        self._size = len(tokenizer)

    def __call__(self, tokens: Sequence[int], generator: np.random.Generator) -> Resegmentation:
        """Re-segment one sentence of token ids; special tokens and pieces that are not text stay unchanged."""
        draws = generator.random((len(tokens), self.settings.max_merge))
        writer = _Writer(self._ids, self._size)
        position = 0
        while position < len(tokens):
            taken = self._merge_length(tokens, position, draws[position])
            if taken > 1:
                entries = (self._entries[t] for t in tokens[position : position + taken])
                parts = [entry for entry in entries if entry is not None]
                writer.write(taken, [Entry("".join(part.surface for part in parts), parts[0].word_initial)])
            else:
                writer.write(1, self._split(tokens[position], draws[position, -1], generator), keep=tokens[position])
            position += taken
        return writer.finish()

    def _merge_length(self, tokens: Sequence[int], position: int, draws: np.ndarray) -> int:
        """The number of tokens from `position` on that are merged into one."""
        if self._entries[tokens[position]] is None:
            return 1
        taken = 1
        while taken < self.settings.max_merge and position + taken < len(tokens):
            following = self._entries[tokens[position + taken]]
            if following is None or following.word_initial or draws[taken - 1] >= self.settings.merge_rate:
                break
            taken += 1
        return taken

    def _split(self, token: int, draw: float, generator: np.random.Generator) -> list[Entry]:
        """The two parts of a split token; empty if it is not split."""
        entry = self._entries[token]
        if entry is None or len(entry.surface) < 2 or draw >= self.settings.split_rate:
            return []
        cut = int(generator.integers(1, len(entry.surface)))
        return [Entry(entry.surface[:cut], entry.word_initial), Entry(entry.surface[cut:], False)]


def unchanged(tokens: Sequence[int]) -> Resegmentation:
    """The sentence without changes: every token is a span."""
    return Resegmentation(list(tokens), [], [Span((i, i + 1), (i, i + 1)) for i in range(len(tokens))])


def agreeing_spans(original_ends: Sequence[int], resegmented_ends: Sequence[int]) -> list[Span]:
    """The smallest spans at whose ends two segmentations cover the same characters.

    Args:
        original_ends: the end offset of each original token in the text, or NO_OFFSET.
        resegmented_ends: the end offset of each re-segmented token.
    """
    position_of = {end: position for position, end in enumerate(original_ends) if end != NO_OFFSET}
    spans: list[Span] = []
    original_start = resegmented_start = 0
    last_with_end = {end: position for position, end in enumerate(resegmented_ends) if end != NO_OFFSET}
    for end, resegmented in last_with_end.items():
        if end in position_of and position_of[end] >= original_start:
            spans.append(Span((original_start, position_of[end] + 1), (resegmented_start, resegmented + 1)))
            original_start, resegmented_start = position_of[end] + 1, resegmented + 1
    if original_start < len(original_ends) or resegmented_start < len(resegmented_ends):
        spans.append(Span((original_start, len(original_ends)), (resegmented_start, len(resegmented_ends))))
    return spans


class _Writer:
    """Collects tokens and spans of a sentence that is being re-segmented."""

    def __init__(self, ids: Mapping[Entry, int], size: int) -> None:
        self._ids = ids
        self._size = size
        self._tokens: list[int] = []
        self._new: dict[SimulatedToken, int] = {}
        self._spans: list[Span] = []
        self._read = 0

    def write(self, taken: int, entries: Sequence[Entry], keep: int | None = None) -> None:
        """Replace the next `taken` original tokens by `entries`, or by the token `keep` when there are none."""
        start = len(self._tokens)
        for entry in entries:
            token = self._ids.get(entry)
            if token is None:
                token = self._size + self._new.setdefault(SimulatedToken(entry), len(self._new))
            self._tokens.append(token)
        if not entries and keep is not None:
            self._tokens.append(keep)
        self._spans.append(Span((self._read, self._read + taken), (start, len(self._tokens))))
        self._read += taken

    def finish(self) -> Resegmentation:
        return Resegmentation(self._tokens, list(self._new), self._spans)
