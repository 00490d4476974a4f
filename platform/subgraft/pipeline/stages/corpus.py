"""Source of text → Corpus: downloaded, cleaned and counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.data.sources.corpus_builder import build
from subgraft.data.tasks.pairings import pairing
from subgraft.pipeline.recipes.corpora import CorpusRecipe
from subgraft.training.context import Context, Json


def run(recipe: CorpusRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    paired = pairing(recipe.questions)
    corpus = build(recipe.source, recipe.languages, recipe.cleaning, out, base=recipe.base, pairing=paired)
    sizes: dict[str, Json] = {split: corpus.size(split) for split in corpus.splits}
    return {"sizes": sizes, "generated": corpus.generated}
