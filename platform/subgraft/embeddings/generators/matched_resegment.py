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
from subgraft.embeddings.generators.resegment import Resegmentation, SimulatedToken, agreeing_spans, unchanged
from subgraft.subwords.similar_tokens.finder import Fallback, Relation, SimilarTokenFinder
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MOST_PIECES = 12
CACHED_ENTRIES = 1 << 16
_Edge = tuple[float, int]  # cost and id of a piece


class CheapestCuts:
    """The cheapest segmentation of an entry into 1, 2, … ordinary tokens.

    The cost of a token is the logarithm of its rank by commonness. By Zipf's law that is its negative log-probability
    up to a constant, so it also applies to vocabularies without probabilities.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        edges = {entry: (math.log(2 + int(tokenizer.commonness[i])), i) for entry, i in tokenizer.ids.items()}
        self._initial = {entry.surface: edge for entry, edge in edges.items() if entry.word_initial}
        self._inside = {entry.surface: edge for entry, edge in edges.items() if not entry.word_initial}
        self._longest = max((len(entry.surface) for entry in edges), default=0)
        self._bare_mark = None
        if tokenizer.mark is not Mark.WORDPIECE and tokenizer.mark.value in tokenizer.pieces:
            bare = tokenizer.pieces.index(tokenizer.mark.value)
            self._bare_mark = math.log(2 + int(tokenizer.commonness[bare]))
        self.of = lru_cache(maxsize=CACHED_ENTRIES)(self._of)

    def _of(self, entry: Entry) -> tuple[tuple[int, ...] | None, ...]:
        """The segmentation into n tokens at index n, up to MOST_PIECES; None if there is none.

        The entry itself is not a segmentation. A word may start with a bare boundary mark and a continuation token; the
        mark is neither counted nor returned.
        """
        size = len(entry.surface)
        # For each end and number of tokens: cost, start of the last token, its id.
        best: list[dict[int, tuple[float, int, int]]] = [{0: (0.0, 0, -1)}, *({} for _ in range(size))]
        for end in range(1, size + 1):
            for start in range(max(0, end - self._longest), end):
                edge = self._edge(entry, start, end)
                if edge is None:
                    continue
                for count, (cost, _, _) in best[start].items():
                    total = cost + edge[0]
                    if count < MOST_PIECES and total < best[end].get(count + 1, (math.inf,))[0]:
                        best[end][count + 1] = (total, start, edge[1])
        return (None, *(_traced(best, n) for n in range(1, MOST_PIECES + 1)))

    def _edge(self, entry: Entry, start: int, end: int) -> _Edge | None:
        surface = entry.surface[start:end]
        whole = end - start == len(entry.surface)
        if start or not entry.word_initial:
            return None if whole else self._inside.get(surface)
        choices = [] if whole else [self._initial.get(surface)]
        if self._bare_mark is not None and (inside := self._inside.get(surface)):
            choices.append((inside[0] + self._bare_mark, inside[1]))
        return min((edge for edge in choices if edge), default=None)


def _traced(best: list[dict[int, tuple[float, int, int]]], count: int) -> tuple[int, ...] | None:
    """The tokens of the cheapest segmentation into `count` tokens."""
    end, ids = len(best) - 1, []
    if count not in best[end]:
        return None
    for n in range(count, 0, -1):
        _, end, token = best[end][n]
        ids.append(token)
    return tuple(reversed(ids))


# Most subwords, and characters, that a stretch of the sentence may contain in addition to the simulated token.
MOST_CONTEXT_SUBWORDS = 2
MOST_CONTEXT_CHARACTERS = 4


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
        self._entries = tokenizer.entries
        self._size = len(tokenizer)
        self._profiles = profiles
        self._rate = rate
        self._cuts = CheapestCuts(tokenizer)
        self._widest = max(profile.characters for profile in profiles) * 5 // 4 + 1 + MOST_CONTEXT_CHARACTERS

    def __call__(
        self, tokens: Sequence[int], generator: np.random.Generator, longest: int | None = None
    ) -> Resegmentation:
        """Re-segment one sentence of token ids; special tokens and pieces that are not text stay unchanged.

        The sentence stays unchanged if it would become longer than `longest` tokens.
        """
        count = generator.binomial(sum(self._entries[t] is not None for t in tokens), self._rate)
        windows = list(self._windows(tokens)) if count else []
        simulated: dict[Entry, SimulatedToken] = {}
        chosen: list[_Replacement] = []
        drawn = [self._profiles[i] for i in generator.integers(len(self._profiles), size=count).tolist()]
        # The longest first: a short token still fits after a long one was placed, but hardly the reverse.
        for profile in sorted(drawn, key=lambda each: -each.characters):
            order = generator.permutation(len(windows)).tolist()
            replacement = self._replacement(profile, (windows[i] for i in order))
            if replacement is not None:
                # Equal spellings share one token.
                token = simulated.setdefault(replacement.token.entry, replacement.token)
                chosen.append(replacement._replace(token=token))
                start, end, _ = replacement.window
                windows = [window for window in windows if window.end <= start or window.start >= end]
        result = self._written(tokens, sorted(chosen, key=lambda each: each.window.start))
        return result if longest is None or len(result.tokens) <= longest else unchanged(tokens)

    def _windows(self, tokens: Sequence[int]) -> Iterator[_Window]:
        """All sequences of tokens inside a word that are not too long."""
        for start, token in enumerate(tokens):
            first = self._entries[token]
            if first is None:
                continue
            surface, end = first.surface, start + 1
            while len(surface) <= self._widest:
                yield _Window(start, end, Entry(surface, first.word_initial))
                following = self._entries[tokens[end]] if end < len(tokens) else None
                if following is None or following.word_initial:
                    break
                surface, end = surface + following.surface, end + 1

    def _replacement(self, profile: TokenProfile, windows: Iterator[_Window]) -> _Replacement | None:
        """The first window that has a stretch like the profile: about as long, of its kind and number of subwords."""
        tolerance = max(1, profile.characters // 4)
        for window in windows:
            excess = len(window.entry.surface) - profile.characters
            if -tolerance <= excess <= tolerance + MOST_CONTEXT_CHARACTERS:
                for replacement in self._stretches(profile, window):
                    if abs(len(replacement.token.entry.surface) - profile.characters) <= tolerance:
                        return replacement
        return None

    def _stretches(self, profile: TokenProfile, window: _Window) -> Iterator[_Replacement]:
        """The whole window first, then parts of it that leave a few tokens over."""
        entry = window.entry
        cuts = self._cuts.of(entry)
        for context in range(MOST_CONTEXT_SUBWORDS + 1):
            cut = cuts[profile.subwords + context] if profile.subwords + context < len(cuts) else None
            if cut is None:
                continue
            for begin in range(context + 1):
                word_initial = entry.word_initial and begin == 0
                if word_initial is not profile.word_initial or (begin and not self._begins_alike(cut[0], entry)):
                    continue
                end = begin + profile.subwords
                surface = "".join(self._surface(token) for token in cut[begin:end])
                token = SimulatedToken(Entry(surface, word_initial), profile.subwords, profile.hyperwords)
                # A single token is not a segmentation.
                if self._cuts.of(token.entry)[profile.subwords] is not None:
                    yield _Replacement(window, cut[:begin], token, cut[end:])

    def _begins_alike(self, token: int, entry: Entry) -> bool:
        """Whether the cut needs no bare mark in front of it."""
        first = self._entries[token]
        return first is not None and first.word_initial is entry.word_initial

    def _surface(self, token: int) -> str:
        entry = self._entries[token]
        assert entry is not None
        return entry.surface

    def _written(self, tokens: Sequence[int], chosen: Sequence[_Replacement]) -> Resegmentation:
        new: dict[SimulatedToken, int] = {}
        written: list[int] = []
        lengths: list[int] = []
        read = 0
        for window, before, token, after in chosen:
            preceding = tokens[read : window.start]
            written += [*preceding, *before, self._size + new.setdefault(token, len(new)), *after]
            lengths += [*map(self._length, (*preceding, *before)), len(token.entry.surface), *map(self._length, after)]
            read = window.end
        written += tokens[read:]
        lengths += map(self._length, tokens[read:])
        ends = list(accumulate(map(self._length, tokens)))
        return Resegmentation(written, list(new), agreeing_spans(ends, list(accumulate(lengths))))

    def _length(self, token: int) -> int:
        """The characters of a token; any number if it is not text, because it is in both segmentations."""
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
    subwords, hyperwords = (np.bincount(rows[chosen], minlength=len(entries)) for chosen in (~hyperword, hyperword))
    cut = (similar.fallback == Fallback.NONE) & (subwords > 0)
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
