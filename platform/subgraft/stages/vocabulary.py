"""Corpus → Vocabulary: the subwords of one side of its training text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from subgraft.config import Settings, VocabularySettings
from subgraft.models.load import load_tokenizers
from subgraft.stages.context import JSON, Context
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.learn import learn


class VocabularyRecipe(Settings):
    """side: of the corpus. With an input `model`, its special tokens and language codes are taken over."""

    side: Literal["source", "target"]
    settings: VocabularySettings
    languages: tuple[str, ...] = ()


def run(recipe: VocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, JSON]:
    del context
    like = load_tokenizers(inputs["model"])["decoder"] if "model" in inputs else None
    lines = Corpus.open(inputs["corpus"]).lines("train", recipe.side)
    tokenizer = learn(
        lines, kind=recipe.settings.kind, size=recipe.settings.size, like=like, languages=recipe.languages
    )
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
