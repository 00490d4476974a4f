"""A user's vocabulary → Vocabulary: imported into the store unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.pipeline.recipes.vocabularies import ImportedVocabularyRecipe
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json


def run(recipe: ImportedVocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    tokenizer = Tokenizer.load(recipe.place)
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
