"""A corpus of pairs that were made: a train split, whose target or source is another corpus's text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.text.corpus import Corpus
from subgraft.text.fields import pair_fields

SPLIT = "train"


def write_pairs(
    pairs: Iterable[tuple[str, str]], languages: Languages, identity: Mapping[str, object], out: Path
) -> Corpus:
    """Write pairs, as they come, into the existing folder `out`.

    languages: of sources and targets.  identity: what they were made of.
    """
    count, fields = 0, pair_fields(languages, two=True)
    with (
        (out / f"{SPLIT}.source").open("w", encoding="utf-8", newline="\n") as sources,
        (out / f"{SPLIT}.target").open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for source, target in pairs:
            sources.write(f"{source}\n")
            targets.write(f"{target}\n")
            count += 1
    corpus = Corpus(
        directory=out,
        fields=fields,
        generated=False,
        sizes={SPLIT: count},
        counts={SPLIT: {"read": count, "kept": count}},
        identity=identity,
    )
    corpus.save()
    return corpus
