"""Source of text → Corpus: fetched, cleaned, counted and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.base import Settings
from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.stages.context import Context, Json
from subgraft.tasks.question_generation import MarkedAnswer
from subgraft.text.corpus import build


class CorpusRecipe(Settings):
    """identity: digests or parameters of the source, which is what the corpus is; where it lies does not count.

    questions: how pairs are made of questions; left out of the fingerprint where the source holds none.
    """

    identity: dict[str, Any]
    languages: Languages
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    source: CorpusSource = Field(exclude=True)
    base: Path = Field(exclude=True)


def run(recipe: CorpusRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    pairing = MarkedAnswer(recipe.questions) if recipe.questions else None
    corpus = build(recipe.source, recipe.languages, recipe.cleaning, out, base=recipe.base, pairing=pairing)
    sizes: dict[str, Json] = {split: corpus.size(split) for split in corpus.splits}
    return {"sizes": sizes, "generated": corpus.generated}
