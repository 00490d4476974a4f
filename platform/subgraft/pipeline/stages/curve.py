"""Corpus → Curve: a language's ALP at every size of its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.data.text.corpus import Corpus
from subgraft.pipeline.recipes.allocations import CurveRecipe
from subgraft.subwords.allocation.curve import RECORD, measure
from subgraft.training.context import Context, Json


def run(recipe: CurveRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    corpus = Corpus.open(inputs["corpus"])
    text = corpus.text_of("encoder")
    found = measure(
        lambda: corpus.lines("train", text), recipe.kind, recipe.sizes, exact=recipe.exact, progress=context.progress
    )
    found.save(out)
    curve = found.curve
    return {"sentences": curve.sentences, "largest": curve.sizes[-1], "limit": curve.limit, "artifacts": [RECORD]}
