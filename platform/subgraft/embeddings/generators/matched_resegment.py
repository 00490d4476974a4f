"""Re-segmentation into simulated tokens that resemble the real new tokens of a task.

Merging and splitting (`resegment`) produces tokens of two subwords and many hyperwords, but a task's new tokens are
longer and have more subwords and hardly any hyperwords. Here a real new token is sampled and a similar part of a word
in the sentence is found: of the same kind and about the same length, with as many subwords. If that part is a token of
the upstream vocabulary, it is treated as if it were not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.resegment import Resegmentation, SimulatedToken, agreeing_spans
from subgraft.subwords.similar_tokens.finder import Fallback, Relation, SimilarTokenFinder
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MAX_PIECES = 12
CACHED_ENTRIES = 1 << 16
_Edge = tuple[float, int]  # cost and id of a piece


class CheapestSegmentations:
    """The cheapest segmentation of an entry into 1, 2, … ordinary tokens.

    The cost of a token is the logarithm of its rank by frequency. By Zipf's law that is its negative log-probability
    up to a constant, so it also applies to vocabularies without probabilities.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        edges = {entry: (math.log(2 + int(tokenizer.frequency_rank[i])), i) for entry, i in tokenizer.ids.items()}
        self._initial = {entry.surface: edge for entry, edge in edges.items() if entry.word_initial}
        self._inside = {entry.surface: edge for entry, edge in edges.items() if not entry.word_initial}
        self._max_length = max((len(entry.surface) for entry in edges), default=0)
        self._bare_mark = None
        if tokenizer.mark is not Mark.WORDPIECE and tokenizer.mark.value in tokenizer.pieces:
            bare = tokenizer.pieces.index(tokenizer.mark.value)
            self._bare_mark = math.log(2 + int(tokenizer.frequency_rank[bare]))
        self.of = lru_cache(maxsize=CACHED_ENTRIES)(self._of)

    def _of(self, entry: Entry) -> tuple[tuple[int, ...] | None, ...]:
        """The segmentation into n tokens at index n, up to MAX_PIECES; None if there is none.

        The entry itself is not a segmentation. A word may start with a bare boundary mark and a continuation token; the
        mark is neither counted nor returned.
        """
        size = len(entry.surface)
        # For each end and number of tokens: cost, start of the last token, its id.
        best: list[dict[int, tuple[float, int, int]]] = [{0: (0.0, 0, -1)}, *({} for _ in range(size))]
        for end in range(1, size + 1):
            for start in range(max(0, end - self._max_length), end):
                edge = self._edge(entry, start, end)
                if edge is None:
                    continue
                for count, (cost, _, _) in best[start].items():
                    total = cost + edge[0]
                    if count < MAX_PIECES and total < best[end].get(count + 1, (math.inf,))[0]:
                        best[end][count + 1] = (total, start, edge[1])
        return (None, *(_trace_back(best, n) for n in range(1, MAX_PIECES + 1)))

    def _edge(self, entry: Entry, start: int, end: int) -> _Edge | None:
        surface = entry.surface[start:end]
        is_entire = end - start == len(entry.surface)
        if start or not entry.word_initial:
            return None if is_entire else self._inside.get(surface)
        candidates = [] if is_entire else [self._initial.get(surface)]
        if self._bare_mark is not None and (inside := self._inside.get(surface)):
            candidates.append((inside[0] + self._bare_mark, inside[1]))
        return min((edge for edge in candidates if edge), default=None)


def _trace_back(best: list[dict[int, tuple[float, int, int]]], count: int) -> tuple[int, ...] | None:
    """The tokens of the cheapest segmentation into `count` tokens."""
    end, ids = len(best) - 1, []
    if count not in best[end]:
        return None
    for n in range(count, 0, -1):
        _, end, token = best[end][n]
        ids.append(token)
    return tuple(reversed(ids))


# The maximum numbers of subwords and characters that a window may contain in addition to the simulated token.
MAX_CONTEXT_SUBWORDS = 2
MAX_CONTEXT_CHARACTERS = 4


class _Window(NamedTuple):
    """Adjacent tokens of one word, [start, end), and the entry that they spell together."""

    start: int
    end: int
    entry: Entry


class _Replacement(NamedTuple):
    """The replacement of a window: upstream tokens, the simulated token, upstream tokens."""

    window: _Window
    before: tuple[int, ...]
    token: SimulatedToken
    after: tuple[int, ...]


class MatchedResegmenter:
    """Re-segments sentences with `rate` simulated tokens per token, if the sentence has similar parts."""

    def __init__(self, tokenizer: Tokenizer, profiles: Sequence[TokenProfile], rate: float) -> None:
        self._entries = tokenizer.word_entries
        self._size = len(tokenizer)
        self._profiles = profiles
        self._rate = rate
        self._segmentations = CheapestSegmentations(tokenizer)
        self._max_window = max(profile.characters for profile in profiles) * 5 // 4 + 1 + MAX_CONTEXT_CHARACTERS

    def __call__(self, tokens: Sequence[int], generator: np.random.Generator) -> Resegmentation:
        """Re-segment one sentence of token ids; special tokens and pieces that are not text stay unchanged."""
        count = generator.binomial(sum(self._entries[t] is not None for t in tokens), self._rate)
        windows = list(self._windows(tokens)) if count else []
        simulated: dict[Entry, SimulatedToken] = {}
        replacements: list[_Replacement] = []
        sampled_profiles = [self._profiles[i] for i in generator.integers(len(self._profiles), size=count).tolist()]
        # Place long tokens first: a short one usually still fits after a long one was placed, but not vice versa.
        for profile in sorted(sampled_profiles, key=lambda item: -item.characters):
            order = generator.permutation(len(windows)).tolist()
            replacement = self._replacement(profile, (windows[i] for i in order))
            if replacement is not None:
                # Equal spellings share one token.
                token = simulated.setdefault(replacement.token.entry, replacement.token)
                replacements.append(replacement._replace(token=token))
                start, end, _ = replacement.window
                windows = [window for window in windows if window.end <= start or window.start >= end]
        return self._apply(tokens, sorted(replacements, key=lambda item: item.window.start))

    def _windows(self, tokens: Sequence[int]) -> Iterator[_Window]:
        """All sequences of tokens inside a word that are not too long."""
        for start, token in enumerate(tokens):
            first = self._entries[token]
            if first is None:
                continue
            surface, end = first.surface, start + 1
            while len(surface) <= self._max_window:
                yield _Window(start, end, Entry(surface, first.word_initial))
                following = self._entries[tokens[end]] if end < len(tokens) else None
                if following is None or following.word_initial:
                    break
                surface, end = surface + following.surface, end + 1

    def _replacement(self, profile: TokenProfile, windows: Iterator[_Window]) -> _Replacement | None:
        """The first window that contains a token like the profile: of its kind, length and number of subwords."""
        tolerance = max(1, profile.characters // 4)
        for window in windows:
            excess = len(window.entry.surface) - profile.characters
            if -tolerance <= excess <= tolerance + MAX_CONTEXT_CHARACTERS:
                for replacement in self._candidates(profile, window):
                    if abs(len(replacement.token.entry.surface) - profile.characters) <= tolerance:
                        return replacement
        return None

    def _candidates(self, profile: TokenProfile, window: _Window) -> Iterator[_Replacement]:
        """Simulated tokens in a window: the whole window first, then parts of it with a few tokens around them."""
        entry = window.entry
        segmentations = self._segmentations.of(entry)
        for context in range(MAX_CONTEXT_SUBWORDS + 1):
            number = profile.subwords + context
            pieces = segmentations[number] if number < len(segmentations) else None
            if pieces is None:
                continue
            for begin in range(context + 1):
                word_initial = entry.word_initial and begin == 0
                if word_initial is not profile.word_initial or (begin and not self._begins_alike(pieces[0], entry)):
                    continue
                end = begin + profile.subwords
                surface = "".join(self._surface(token) for token in pieces[begin:end])
                token = SimulatedToken(Entry(surface, word_initial), profile.subwords, profile.hyperwords)
                # A single token is not a segmentation.
                if self._segmentations.of(token.entry)[profile.subwords] is not None:
                    yield _Replacement(window, pieces[:begin], token, pieces[end:])

    def _begins_alike(self, token: int, entry: Entry) -> bool:
        """Whether the piece needs no bare mark in front of it."""
        first = self._entries[token]
        return first is not None and first.word_initial is entry.word_initial

    def _surface(self, token: int) -> str:
        entry = self._entries[token]
        assert entry is not None
        return entry.surface

    def _apply(self, tokens: Sequence[int], replacements: Sequence[_Replacement]) -> Resegmentation:
        new: dict[SimulatedToken, int] = {}
        output: list[int] = []
        lengths: list[int] = []
        position = 0
        for window, before, token, after in replacements:
            preceding = tokens[position : window.start]
            output += [*preceding, *before, self._size + new.setdefault(token, len(new)), *after]
            lengths += [*map(self._length, (*preceding, *before)), len(token.entry.surface), *map(self._length, after)]
            position = window.end
        output += tokens[position:]
        lengths += map(self._length, tokens[position:])
        ends = list(accumulate(map(self._length, tokens)))
        return Resegmentation(output, list(new), agreeing_spans(ends, list(accumulate(lengths))))

    def _length(self, token: int) -> int:
        """The length of a token in characters; 1 if it is not text, which does not matter, as it never changes."""
        entry = self._entries[token]
        return 1 if entry is None else len(entry.surface)


class TokenProfile(NamedTuple):
    """Whether a new token starts a word, its length, and its number of upstream subwords and hyperwords."""

    word_initial: bool
    characters: int
    subwords: int
    hyperwords: int


def profiles_of(source: Tokenizer, target: Tokenizer, max_similar: int) -> list[TokenProfile]:
    """Profiles of the target vocabulary's new subwords that the source vocabulary segments into ordinary tokens.

    Raises UserError if there are none.
    """
    entries = [entry for token in align(source, target).unseen if (entry := target.entries[token]) is not None]
    similar = SimilarTokenFinder(source, max_similar).find(entries)
    rows = np.repeat(np.arange(len(entries)), np.diff(similar.offsets))
    hyperword = similar.relations >= Relation.PREFIX_HYPERWORD
    subwords, hyperwords = (np.bincount(rows[mask], minlength=len(entries)) for mask in (~hyperword, hyperword))
    is_segmented = (similar.fallback == Fallback.NONE) & (subwords > 0)
    if not is_segmented.any():
        raise UserError(
            "the task's vocabulary has no new subword that simulated tokens could resemble",
            where="generator.resegmentation.match",
            hint="Leave match out, or learn the task's vocabulary from its own text.",
        )
    return [
        TokenProfile(entries[i].word_initial, len(entries[i].surface), int(subwords[i]), int(hyperwords[i]))
        for i in np.flatnonzero(is_segmented)
    ]
