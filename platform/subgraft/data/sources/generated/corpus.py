"""The built-in corpus: distinct pairs of a domain, the split of each, and the kind of source that has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from random import Random
from typing import Literal, get_args

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.generated.grammar import Grammar
from subgraft.data.sources.generated.words import Features
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.text.fields import Sides, pair_fields

Domain = Literal["everyday", "law"]
Pair = tuple[str, str]

GENERATED_DOMAINS: tuple[Domain, ...] = get_args(Domain)
GENERATED_COUNTS: Mapping[Split, int] = {"train": 20_000, "dev": 500, "test": 1_000}
GENERATED_SEED = 1
# Source first, as the generator yields it.
GENERATED_LANGUAGES = ("en", "de")

# Raised whenever other sentences are drawn, because text stored by an earlier version differs.
VERSION = 2
# Of ten sentences, by the digest of their English side.
_SPLITS: tuple[Split, ...] = ("train",) * 6 + ("dev",) * 2 + ("test",) * 2
_SHORTEST, _LONGEST = 4, 22
# After this many draws in a row without a new pair, there are hardly any left.
_MAX_FRUITLESS = 20_000
_CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}
_CONTRACTED = re.compile(rf"\b({'|'.join(_CONTRACTIONS)})\b")
# Duplicate commas where two rules meet, commas before the end, and the gap that a moved verb leaves.
_STOPS = re.compile(r" ?(,)[ ,]*(?=[^ ,.?])|[ ,]+(?=[.?])")
# Words before which "a" becomes "an". Some begin with a vowel letter but not with a vowel sound, or vice versa.
_AN = re.compile(r"\ba(?= (?:(?!us|uni)[aeiou]|heir))")


def pairs(domain: Domain, split: Split, count: int, seed: int = 1) -> Iterator[Pair]:
    """`count` distinct (English, German) pairs of 4 to 22 words a side, a function of the arguments alone.

    A smaller count is a prefix of a larger one. A sentence belongs to one split whatever the seed, and the compounds
    that the grammar keeps out of training occur in dev and test only.

    Raises UserError if the domain has fewer pairs.
    """
    return take(draw_pairs(domain, split, seed), domain, split, count)


def draw_pairs(domain: Domain, split: Split, seed: int) -> Iterator[Pair]:
    """An endless stream of pairs from the domain's grammar, of any length and split, with repetitions."""
    rng = Random(f"{domain}/{split}/{seed}")
    sentences = grammar(domain, held_out=split != "train")
    while True:
        phrase = sentences.derive("S", rng)
        yield format_sentence(phrase.english(Features())), format_sentence(phrase.german(Features()))


def take(candidates: Iterable[Pair], domain: Domain, split: Split, count: int) -> Iterator[Pair]:
    """The first `count` distinct pairs of the candidates that belong to the split; raises as `pairs` does."""
    seen: set[str] = set()
    fruitless = 0
    for english, german in candidates:
        if len(seen) == count:
            return
        fruitless += 1
        if fruitless > _MAX_FRUITLESS:
            raise UserError(
                f"the generated corpus has no {count:,} distinct pairs in {domain} {split} ({len(seen):,} found)",
                where=f"generated: {domain}",
                hint=f"Ask for {len(seen):,} or fewer.",
            )
        if english not in seen and _split(english) == split and _fits(english) and _fits(german):
            seen.add(english)
            fruitless = 0
            yield english, german


@cache
def grammar(domain: Domain, held_out: bool = True) -> Grammar:
    """The grammar of a domain."""
    text = resources.files("subgraft.data.sources.generated").joinpath(f"{domain}.grammar").read_text(encoding="utf-8")
    return Grammar(text, held_out)


def format_sentence(text: str) -> str:
    """The words as a sentence: single spaces and commas, a or an, *im* for *in dem*, a capital first."""
    text = _STOPS.sub(lambda match: ", " if match[1] else "", " ".join(text.split()))
    text = _CONTRACTED.sub(lambda match: _CONTRACTIONS[match[0]], _AN.sub("an", text))
    return text[0].upper() + text[1:]


def _split(english: str) -> Split:
    return _SPLITS[sha256(english.encode()).digest()[0] % len(_SPLITS)]


def _fits(side: str) -> bool:
    return _SHORTEST <= side.count(" ") + 1 <= _LONGEST


class Generated(Settings):
    """generated: a domain of the built-in corpus."""

    generated: Domain | None = None


@dataclass(frozen=True)
class GeneratedSource(ResolvedSource):
    """A domain of the built-in corpus."""

    domain: Domain

    generated = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return SPLITS

    def identity(self) -> dict[str, object]:
        counts = {split: self.size(split) for split in SPLITS}
        return {"generated": self.domain, "version": VERSION, "counts": counts, "seed": GENERATED_SEED}

    def size(self, split: Split) -> int:
        return self.limit.get(split, GENERATED_COUNTS[split])

    def read(self, split: Split) -> Iterator[Sides]:
        swapped = self.fields[0].language != GENERATED_LANGUAGES[0]
        for pair in pairs(self.domain, split, self.size(split), GENERATED_SEED):
            yield pair[::-1] if swapped else pair


def _resolve(request: Request) -> ResolvedSource:
    languages = request.pair
    if {languages.source, languages.target} != set(GENERATED_LANGUAGES):
        direction = f"{languages.source} to {languages.target}"
        raise UserError(f"the generated corpus is English and German (en, de), not {direction}", where="languages")
    return GeneratedSource(pair_fields(languages, two=True), request.limit, request.settings)


GENERATED = SourceKind(name="generated", fields=Generated, resolve=_resolve, one_text=lambda domain: False)
