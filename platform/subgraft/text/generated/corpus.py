"""The built-in corpus: distinct pairs of a domain, and which split each belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Literal

from subgraft.errors import UserError
from subgraft.text.generated.draw import Draw
from subgraft.text.generated.everyday import everyday_pair
from subgraft.text.generated.law import law_pair
from subgraft.text.generated.law_compounds import COMPOUNDS

Domain = Literal["everyday", "law"]
Split = Literal["train", "dev", "test"]
Pair = tuple[str, str]

_MAKERS: Mapping[str, Callable[[Draw], Pair]] = {"everyday": everyday_pair, "law": law_pair}
# Of ten sentences, by the digest of their English side.
_SPLITS: tuple[Split, ...] = ("train",) * 6 + ("dev",) * 2 + ("test",) * 2
_SHORTEST, _LONGEST = 4, 22
# So many draws in a row without a new pair: there are hardly more.
_PATIENCE = 20_000
_WORD = re.compile(r"\w+")


def pairs(domain: Domain, split: Split, count: int, seed: int = 1) -> Iterator[Pair]:
    """`count` distinct (English, German) pairs of 4 to 22 words a side, a function of the arguments alone.

    A smaller count is a prefix of a larger one. A sentence belongs to one split whatever the seed, and compounds of
    `held_out_compounds` occur in dev and test only.

    Raises UserError where the domain has not as many pairs.
    """
    return take(_drawn(domain, split, seed), domain, split, count)


def take(drawn: Iterable[Pair], domain: Domain, split: Split, count: int) -> Iterator[Pair]:
    """The first `count` distinct pairs of those drawn that belong to the split; raises as `pairs` does."""
    known: set[str] = set()
    fruitless = 0
    for english, german in drawn:
        if len(known) == count:
            return
        fruitless += 1
        if fruitless > _PATIENCE:
            raise _exhausted(domain, split, count, len(known))
        if english in known or _split(english) != split or not _fits(english, german):
            continue
        if _allowed(german, domain, split, len(known)):
            known.add(english)
            fruitless = 0
            yield english, german


def _allowed(german: str, domain: Domain, split: Split, position: int) -> bool:
    """Training has no compound that is held out; every second sentence of dev and test has one."""
    held_out = held_out_compounds(domain)
    if not held_out or (split != "train" and position % 2):
        return True
    return held_out.isdisjoint(_WORD.findall(german)) == (split == "train")


def _drawn(domain: Domain, split: Split, seed: int) -> Iterator[Pair]:
    draw = Draw(f"{domain}/{split}/{seed}", held_out=split != "train")
    maker = _MAKERS[domain]
    while True:
        yield maker(draw)


def _split(english: str) -> Split:
    return _SPLITS[sha256(english.encode()).digest()[0] % len(_SPLITS)]


def _fits(english: str, german: str) -> bool:
    return all(_SHORTEST <= side.count(" ") + 1 <= _LONGEST for side in (english, german))


def _exhausted(domain: str, split: str, count: int, found: int) -> UserError:
    return UserError(
        f"the generated corpus has no {count:,} distinct pairs in {domain} {split} ({found:,} found)",
        where=f"generated: {domain}",
        hint=f"Ask for {found:,} or fewer.",
    )


@cache
def held_out_compounds(domain: Domain) -> frozenset[str]:
    """The German compounds that occur in dev and test and never in train; everyday language holds out none."""
    if domain == "everyday":
        return frozenset()
    held = [compound.noun for compound in COMPOUNDS if compound.held_out]
    return frozenset(form for noun in held for form in (noun.german, noun.plural) if form)


@cache
def capacity(domain: Domain) -> int:
    """About how many distinct pairs the training split has: of n draws, collisions are n(n-1) / 2 / capacity."""
    draws, maker = 20_000, _MAKERS[domain]
    draw = Draw(f"{domain}/capacity", held_out=False)
    distinct = len({maker(draw)[0] for _ in range(draws)})
    return int(0.6 * draws * (draws - 1) / 2 / max(1, draws - distinct))
