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


def lines_in_turn(lines: int, size: int, number: int, seed: int) -> np.ndarray:
    """The indices of the lines of one part of a text, in ascending order.

    Parts are consecutive ranges of a shuffled order of all lines, which continues with another shuffled order, so that
    every line has its turn.

    Args:
        lines: The number of lines of the text.
        size: The number of lines of a part.
        number: The number of the part, from 0.
        seed: The seed of the orders.
    """
    positions = np.arange(number * size, number * size + min(size, lines))
    permutations = {
        turn: np.random.default_rng([seed, turn]).permutation(lines) for turn in set((positions // lines).tolist())
    }
    return np.unique([permutations[position // lines][position % lines] for position in positions.tolist()])


# Copied text: each line is the target of a copy of itself (Currey, Miceli Barone, Heafield 2017). The copy leaves out
# some words, which is the noise of Hill et al. (2016) and Lample et al. (2018, section 2.3): without it a model only
# learns to copy.


def copied_pairs(lines: Iterable[str], drop: float, seed: int) -> Iterator[tuple[str, str]]:
    """(line with dropped words, line) for every line; the dropped words are a function of (seed, index, line)."""
    for index, line in enumerate(lines):
        yield without_words(line, drop, np.random.default_rng([seed, index])), line


def without_words(line: str, drop: float, generator: np.random.Generator) -> str:
    """The line, each of its words dropped with probability `drop`, but never all of them."""
    words = text_words(line)
    retained = generator.random(len(words)) >= drop
    if not retained.any() and words:
        retained[generator.integers(len(words))] = True
    return "".join(word for word, keep in zip(words, retained.tolist(), strict=True) if keep).strip()


# The tag before machine-generated sources lets a model distinguish them from human text (Caswell et al. 2019). Each
# vocabulary segments it as ordinary text, so neither vocabularies nor models need an entry for it.


def add_tag(source: str) -> str:
    """The source with the tag."""
    return f"{TAG} {source}"


def require_tag(tokenizer: Tokenizer, where: str) -> None:
    """Raises UserError if the vocabulary of sources cannot spell the tag, which would become an unknown token."""
    if tokenizer.special.get("unk", -1) in tokenizer.encode(TAG):
        hint = "Write back_translation.tag: false, or give the vocabulary byte_fallback."
        raise UserError(f"the encoder's vocabulary cannot spell the tag {TAG}", where=where, hint=hint)


def is_tagged(identity: Mapping[str, object]) -> bool:
    """Whether a corpus of this identity has tagged sources."""
    return bool(identity.get("tag"))
