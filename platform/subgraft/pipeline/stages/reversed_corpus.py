"""Corpus → Corpus of the same pairs with source and target exchanged, for a model of the other direction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.data.synthetic_pairs import write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.pipeline.recipes.corpora import ReversedRecipe
from subgraft.training.context import Context, Json


def run(recipe: ReversedRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    corpus, languages = Corpus.open(inputs["corpus"]), recipe.languages
    splits = {split: ((target, source) for source, target in corpus.pairs(split, languages)) for split in corpus.splits}
    identity = {"kind": "reversed", "corpus": dict(corpus.identity)}
    return {"sizes": dict(write_pairs(splits, languages.reversed, identity, out).sizes)}
