"""Which test pairs occur in training text, by digests of their sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import texts
from subgraft.data.text.held_out import folded, key


@dataclass(frozen=True)
class SeenPairs:
    """How many pairs of a test set occur in training text; lines are equal up to typography (see `held_out`).

    Attributes:
        sentences: Pairs of the test set.
        pairs: Those whose sides are a pair of a training corpus too, in either direction.
        sources, targets: Those whose source, or target, is a line of it, alone or in another pair.
    """

    sentences: int
    pairs: int
    sources: int
    targets: int

    @classmethod
    def of(cls, test: Iterable[tuple[str, str]], training: Iterable[Corpus]) -> SeenPairs:
        """Compare test pairs with the training splits of corpora, which are read once."""
        wanted = [(digest(source), digest(target)) for source, target in test]
        lines, pairs = {each for pair in wanted for each in pair}, {frozenset(pair) for pair in wanted}
        seen, seen_pairs = set[bytes](), set[frozenset[bytes]]()
        for corpus in training:
            for sides in _digests(corpus):
                held = [each for each in sides if each in lines]
                seen.update(held)
                seen_pairs.update(pair for pair in map(frozenset, combinations(held, 2)) if pair in pairs)
        return cls(
            len(wanted),
            sum(frozenset(pair) in seen_pairs for pair in wanted),
            sum(source in seen for source, _ in wanted),
            sum(target in seen for _, target in wanted),
        )


def digest(line: str) -> bytes:
    """SHA-256 of a line in the form by which held-out lines are compared."""
    return sha256(key(folded(line)).encode()).digest()


def _digests(corpus: Corpus) -> Iterator[tuple[bytes, ...]]:
    """The digests of the parallel lines of each training segment; of each line where texts are not parallel."""
    names = [text.name for text in texts(corpus.fields)]
    together = [names] if corpus.aligned else [[name] for name in names]
    for group in together if "train" in corpus.splits else ():
        for sides in zip(*(corpus.lines("train", name) for name in group), strict=True):
            yield tuple(map(digest, sides))
