"""METEOR with its exact and stem modules (Banerjee and Lavie 2005; Lavie and Agarwal 2007 for the parameters).

Synonyms and paraphrases need WordNet and tables that exist for few languages; they are not used. Words are matched in
stages: equal words first, then equal stems of the other words. Of the alignments with the most matches the one with the
fewest chunks is taken, and of those the one that moves words least (Denkowski and Lavie 2011, section 2). Java's METEOR
chooses over all modules at once: where alignments of equal words tie, the stems that follow can make another number of
chunks.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from subgraft.evaluation.metrics.metric_words import is_chinese, primary, tokens

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
BEAM = 40
# Snowball's stemmers by language code, as nltk names them.
STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}
# For each word of the output, the position of the reference word that it is aligned with.
Alignment = tuple[int | None, ...]


def signature(language: str) -> str:
    """The settings under which `sentence_meteor` scores; without a stemmer for the language only equal words match."""
    stemmer = STEMMERS.get(primary(language))
    modules = f"exact,stem(snowball-{stemmer})" if stemmer else "exact"
    tokenizer = "zh" if is_chinese(language) else "13a"
    parameters = f"alpha:{ALPHA:g}|beta:{BETA:g}|gamma:{GAMMA:g}"
    return f"nrefs:1|case:lc|tok:{tokenizer}|modules:{modules}|{parameters}|corpus:mean-of-sentences"


def sentence_meteor(hypothesis: str, reference: str, language: str) -> float:
    """The score of one sentence, in 0 to 1; 0 where nothing matches."""
    output, target = tokens(hypothesis, language), tokens(reference, language)
    alignment = align(output, target, _stemmer(language))
    matches = sum(position is not None for position in alignment)
    if not matches:
        return 0.0
    precision, recall = matches / len(output), matches / len(target)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return float(mean * (1 - GAMMA * (count_chunks(alignment) / matches) ** BETA))


def count_chunks(alignment: Alignment) -> int:
    """Count the chunks: runs of words that are adjacent and in the same order on both sides."""
    previous = (None, *alignment[:-1])
    return sum(
        position is not None and (preceding is None or position != preceding + 1)
        for preceding, position in zip(previous, alignment, strict=True)
    )


def align(output: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] | None) -> Alignment:
    """Align equal words, and then, with a stemmer, the remaining words of equal stems."""
    alignment = _align_stage((None,) * len(output), output, reference)
    if stem is None:
        return alignment
    return _align_stage(alignment, [stem(word) for word in output], [stem(word) for word in reference])


class _Partial(NamedTuple):
    """An alignment of the first words.

    Attributes:
        chunks: The chunks so far.
        shift: The summed distance between the positions of matches.
        used: The reference positions that are aligned, as bits.
        position: The position of the last word.
        previous: The alignment of the words before it; None at the start.
    """

    chunks: int = 0
    shift: int = 0
    used: int = 0
    position: int | None = None
    previous: _Partial | None = None

    def alignment(self) -> Alignment:
        positions: list[int | None] = []
        partial = self
        while partial.previous is not None:
            positions.append(partial.position)
            partial = partial.previous
        return tuple(reversed(positions))


# A continuation by its cost (chunks, then shift), its place among equals, and its position.
_Candidate = tuple[int, int, int, int, int | None]


def _align_stage(alignment: Alignment, output: Sequence[str], reference: Sequence[str]) -> Alignment:
    """Align as many more words of equal keys as there are, in as few chunks as a beam search finds.

    Each word costs a few steps for each place in the beam, however often it is repeated.
    """
    aligned = {position for position in alignment if position is not None}
    free: defaultdict[str, int] = defaultdict(int)  # the positions of each key, as bits
    for place, key in enumerate(reference):
        if place not in aligned:
            free[key] |= 1 << place
    open_keys = Counter(key for key, position in zip(output, alignment, strict=True) if position is None)
    seen = Counter[str]()
    beam = [_Partial()]
    for index, (key, fixed) in enumerate(zip(output, alignment, strict=True)):
        # Only so many words of a key may be left out, or the alignment would not have the most matches.
        max_left_out = max(0, open_keys[key] - free[key].bit_count())
        candidates = heapq.merge(
            *(
                _continuations(partial, place, index, fixed, free[key], seen[key] < max_left_out + matched)
                for place, partial in enumerate(beam)
                for matched in [(partial.used & free[key]).bit_count()]
            )
        )
        chosen: dict[tuple[int, int | None], _Partial] = {}
        for chunks, shift, place, _, position in candidates:
            used = beam[place].used if position is None else beam[place].used | 1 << position
            chosen.setdefault((used, position), _Partial(chunks, shift, used, position, beam[place]))
            if len(chosen) == BEAM:
                break
        beam = list(chosen.values())
        seen[key] += fixed is None
    return beam[0].alignment()


def _continuations(
    partial: _Partial, place: int, index: int, fixed: int | None, free: int, may_leave_out: bool
) -> Iterator[_Candidate]:
    """The alignments of the next word, by ascending cost."""
    following = -1 if partial.position is None else partial.position + 1
    if fixed is not None:
        shift = partial.shift + abs(fixed - index)
        yield partial.chunks + (fixed != following), shift, place, 0, fixed
        return
    open_positions = free & ~partial.used
    leave_out: _Candidate = (partial.chunks, partial.shift, place, 1, None)
    if following >= 0 and open_positions >> following & 1:
        open_positions ^= 1 << following
        follow: _Candidate = (partial.chunks, partial.shift + abs(following - index), place, 0, following)
        yield from sorted([follow, leave_out][: 1 + may_leave_out])
    elif may_leave_out:
        yield leave_out
    for position in _outwards(open_positions, index):
        yield partial.chunks + 1, partial.shift + abs(position - index), place, position, position


def _outwards(positions: int, centre: int) -> Iterator[int]:
    """The positions that are set, by distance from the centre; the lower of two equally distant ones first."""
    below, above = positions & ((1 << centre) - 1), positions >> centre
    while below or above:
        lower = below.bit_length() - 1
        upper = centre + (above & -above).bit_length() - 1
        if not above or (below and centre - lower <= upper - centre):
            below ^= 1 << lower
            yield lower
        else:
            above &= above - 1
            yield upper


@cache
def _stemmer(language: str) -> Callable[[str], str] | None:
    name = STEMMERS.get(primary(language))
    if name is None:
        return None
    from nltk.stem.snowball import SnowballStemmer  # a second to import

    stem: Callable[[str], str] = cache(SnowballStemmer(name).stem)
    return stem
