"""A user's vocabulary → Vocabulary: imported into the store unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.pipeline.recipes.vocabularies import ImportedVocabularyRecipe
from subgraft.pipeline.stages.context import Context, Json
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def run(recipe: ImportedVocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    tokenizer = Tokenizer.load(recipe.place)
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
