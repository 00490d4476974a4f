"""Source of text → Corpus: fetched, cleaned, counted and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.settings import Cleaning, CorpusSource, Languages, Settings
from subgraft.stages.context import Context, Json
from subgraft.text.corpus import build


class CorpusRecipe(Settings):
    """identity: digests or parameters of the source, which is what the corpus is; where it lies does not count."""

    identity: dict[str, Any]
    languages: Languages
    cleaning: Cleaning
    source: CorpusSource = Field(exclude=True)
    base: Path = Field(exclude=True)


def run(recipe: CorpusRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    corpus = build(recipe.source, recipe.languages, recipe.cleaning, out, base=recipe.base)
    sizes: dict[str, Json] = {split: corpus.size(split) for split in corpus.splits}
    return {"sizes": sizes, "generated": corpus.generated}
