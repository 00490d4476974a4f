"""Synthetic pairs: corpora derived from other corpora, copied text, and the tag of machine-generated sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.synthetic import TAG
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import pair_fields
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import text_words

# The split of monolingual text for a task, and so of the synthetic pairs.
SPLIT = "train"


def write_pairs(
    splits: Mapping[str, Iterable[tuple[str, str]]], languages: Languages, identity: Mapping[str, object], out: Path
) -> Corpus:
    """Write the pairs of each split into the existing folder `out`; `identity` describes their inputs."""
    sizes = dict.fromkeys(splits, 0)
    for split, pairs in splits.items():
        sides = [(out / f"{split}.{side}").open("w", encoding="utf-8", newline="\n") for side in ("source", "target")]
        with sides[0] as sources, sides[1] as targets:
            for source, target in pairs:
                sources.write(f"{source}\n")
                targets.write(f"{target}\n")
                sizes[split] += 1
    corpus = Corpus(
        directory=out,
        fields=pair_fields(languages, two=True),
        generated=False,
        sizes=sizes,
        counts={split: {"read": size, "kept": size} for split, size in sizes.items()},
        identity=identity,
    )
    corpus.save()
    return corpus


# A part of a text, so that every line has its turn.


def lines_in_turn(lines: int, size: int, number: int, seed: int) -> np.ndarray:
    """The indices of the part `number`, from 0, of so many lines of a text, in ascending order.

    Parts follow each other in a shuffled order; after its end comes another one.
    """
    places = np.arange(number * size, number * size + min(size, lines))
    orders = {turn: np.random.default_rng([seed, turn]).permutation(lines) for turn in set((places // lines).tolist())}
    return np.unique([orders[place // lines][place % lines] for place in places.tolist()])


# Copied text: a line as the target of itself, some of whose words are left out (Currey, Miceli Barone, Heafield 2017).
#
# The words that are left out are the noise of Hill et al. (2016) and Lample et al. (2018, section 2.3): without it a
# model learns to copy, and nothing of the text.


def copied(lines: Iterable[str], drop: float, seed: int) -> Iterator[tuple[str, str]]:
    """(source, target) of every line: the line with words dropped, and the line; a function of (seed, index, line)."""
    for place, line in enumerate(lines):
        yield without_words(line, drop, np.random.default_rng([seed, place])), line


def without_words(line: str, drop: float, generator: np.random.Generator) -> str:
    """The line, each of its words dropped with probability `drop`, but never all of them."""
    words = text_words(line)
    retained = generator.random(len(words)) >= drop
    if not retained.any() and words:
        retained[generator.integers(len(words))] = True
    return "".join(word for word, keep in zip(words, retained.tolist(), strict=True) if keep).strip()


# The tag before sources that a machine wrote, so that a model can tell them from a person's (Caswell et al. 2019).
#
# Each vocabulary segments it as ordinary text, so no vocabulary needs an entry for it and no model a row.


def tagged(source: str) -> str:
    """The source with the tag."""
    return f"{TAG} {source}"


def require_tag(tokenizer: Tokenizer, where: str) -> None:
    """Raises UserError if the vocabulary of sources cannot spell the tag, which would become an unknown token."""
    if tokenizer.special.get("unk", -1) in tokenizer.encode(TAG):
        hint = "Write back_translation.tag: false, or give the vocabulary byte_fallback."
        raise UserError(f"the encoder's vocabulary cannot spell the tag {TAG}", where=where, hint=hint)


def is_tagged(identity: Mapping[str, object]) -> bool:
    """Whether a corpus of this identity has the tag before its sources."""
    return bool(identity.get("tag"))
