"""Corpus → Vocabulary: the subwords of one side of its training text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from subgraft.config import Settings, VocabularySettings
from subgraft.models.tokenizers import load_tokenizers
from subgraft.stages.context import Context, Json
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.learn import learn


class VocabularyRecipe(Settings):
    """side: of the corpus, or both for a vocabulary that sides share, which then has a mask token and language codes.

    With an input `model`, that model's special tokens and language codes are taken over.
    """

    side: Literal["source", "target", "both"]
    settings: VocabularySettings
    languages: tuple[str, ...] = ()


def run(recipe: VocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    like = load_tokenizers(inputs["model"])["decoder"] if "model" in inputs else None
    corpus = Corpus.open(inputs["corpus"])
    sides: tuple[Literal["source", "target"], ...] = (recipe.side,) if recipe.side != "both" else ("source", "target")
    sides = sides[:1] if corpus.monolingual else sides
    tokenizer = learn(
        chain.from_iterable(corpus.lines("train", side) for side in sides),
        kind=recipe.settings.kind,
        size=recipe.settings.size,
        mask=bool(recipe.languages),
        languages=recipe.languages,
        like=like,
    )
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
