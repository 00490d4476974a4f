"""METEOR with its exact and stem modules (Banerjee and Lavie 2005; Lavie and Agarwal 2007 for the parameters).

Synonyms and paraphrases need WordNet and tables that exist for few languages; they are not used. Words are matched in
stages: equal words first, then equal stems of the other words. Of the alignments with the most matches the one with the
fewest chunks is taken (Denkowski and Lavie 2011, section 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

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


@dataclass(frozen=True, slots=True)
class _Partial:
    """An alignment of the first words.

    Attributes:
        alignment: The positions of these words.
        used: The reference positions that are aligned.
        chunks: The chunks so far.
        shift: The summed distance between the positions of matches.
        left_out: How many words of each key are not aligned.
    """

    alignment: Alignment = ()
    used: frozenset[int] = frozenset()
    chunks: int = 0
    shift: int = 0
    left_out: frozenset[tuple[str, int]] = frozenset()

    def match(self, position: int) -> _Partial:
        follows = bool(self.alignment) and self.alignment[-1] is not None and self.alignment[-1] + 1 == position
        shift = self.shift + abs(position - len(self.alignment))
        return _Partial(
            (*self.alignment, position), self.used | {position}, self.chunks + (not follows), shift, self.left_out
        )

    def leave_out(self, key: str) -> _Partial:
        counts = Counter(dict(self.left_out)) + Counter([key])
        return _Partial((*self.alignment, None), self.used, self.chunks, self.shift, frozenset(counts.items()))


def _align_stage(alignment: Alignment, output: Sequence[str], reference: Sequence[str]) -> Alignment:
    """Align as many more words of equal keys as there are, in as few chunks as a beam search finds."""
    aligned = {position for position in alignment if position is not None}
    free: dict[str, list[int]] = {}
    for position, key in enumerate(reference):
        if position not in aligned:
            free.setdefault(key, []).append(position)
    open_keys = Counter(key for key, position in zip(output, alignment, strict=True) if position is None)
    # Only this many words of a key may be left out, or the alignment would not have the most matches.
    max_left_out = {key: max(0, count - len(free.get(key, ()))) for key, count in open_keys.items()}
    beam = [_Partial()]
    for key, fixed in zip(output, alignment, strict=True):
        candidates: dict[tuple[object, ...], _Partial] = {}
        for partial in beam:
            for candidate in _continuations(partial, key, fixed, free, max_left_out):
                state = (candidate.used, candidate.alignment[-1], candidate.left_out)
                if state not in candidates or _cost(candidate) < _cost(candidates[state]):
                    candidates[state] = candidate
        beam = sorted(candidates.values(), key=_cost)[:BEAM]
    return beam[0].alignment


def _continuations(
    partial: _Partial, key: str, fixed: int | None, free: dict[str, list[int]], max_left_out: dict[str, int]
) -> list[_Partial]:
    if fixed is not None:
        return [partial.match(fixed)]
    positions = [position for position in free.get(key, ()) if position not in partial.used]
    extended = [partial.match(position) for position in positions]
    if dict(partial.left_out).get(key, 0) < max_left_out[key]:
        extended.append(partial.leave_out(key))
    return extended


def _cost(partial: _Partial) -> tuple[int, int]:
    return partial.chunks, partial.shift


@cache
def _stemmer(language: str) -> Callable[[str], str] | None:
    name = STEMMERS.get(primary(language))
    if name is None:
        return None
    from nltk.stem.snowball import SnowballStemmer  # a second to import

    stem: Callable[[str], str] = cache(SnowballStemmer(name).stem)
    return stem
