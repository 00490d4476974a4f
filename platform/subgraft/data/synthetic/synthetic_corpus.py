"""A corpus of pairs that were made of another corpus: of its text, or of its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import pair_fields

# The split of text beside a task's pairs, and so of the pairs that are made of it.
SPLIT = "train"


def write_pairs(
    splits: Mapping[str, Iterable[tuple[str, str]]], languages: Languages, identity: Mapping[str, object], out: Path
) -> Corpus:
    """Write the pairs of each split, as they come, into the existing folder `out`.

    languages: of sources and targets.  identity: what they were made of.
    """
    sizes = {split: _write(pairs, out, split) for split, pairs in splits.items()}
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


def _write(pairs: Iterable[tuple[str, str]], out: Path, split: str) -> int:
    """How many there were."""
    count = 0
    with (
        (out / f"{split}.source").open("w", encoding="utf-8", newline="\n") as sources,
        (out / f"{split}.target").open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for source, target in pairs:
            sources.write(f"{source}\n")
            targets.write(f"{target}\n")
            count += 1
    return count
