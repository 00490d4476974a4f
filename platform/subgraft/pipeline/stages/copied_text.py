"""Text → Corpus of pairs: the text as the target of copies of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.data.synthetic_pairs import SPLIT, copied, write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.pipeline.recipes.corpora import CopiedRecipe
from subgraft.training.context import Context, Json


def run(recipe: CopiedRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    text, drop = Corpus.open(inputs["text"]), recipe.copied.drop
    size, written = text.size(SPLIT, "target"), recipe.languages.target
    lines = text.lines(SPLIT, "target")
    pairs = copied(lines, drop, recipe.seed)
    identity = {"kind": "copied", "drop": drop, "seed": recipe.seed, "text": dict(text.identity)}
    corpus = write_pairs({SPLIT: pairs}, Languages(source=written, target=written), identity, out)
    context.progress(corpus.size(SPLIT), size, "sentences")
    return {"sizes": {SPLIT: corpus.size(SPLIT)}}
