"""PretrainedModel or Vocabulary, and Corpus → Vocabulary: the upstream one, extended or trimmed by the task's text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.corpus_views import training_lines, training_texts
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.recipes.vocabularies import AdaptedVocabularyRecipe
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim
from subgraft.training.context import Context, Json


def run(recipe: AdaptedVocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    shared = recipe.side == "both"
    if "model" in inputs:
        old = _of_model(load_tokenizers(inputs["model"]), recipe.model_side, shared)
    else:
        old = Tokenizer.load(inputs["vocabulary"])
    corpora = [Corpus.open(inputs[role]) for role in ("corpus", "text") if role in inputs]
    lines: Iterable[str]
    if recipe.side == "both":
        lines = chain.from_iterable(chain.from_iterable(training_texts(*corpora).values()))
    else:
        lines = training_lines(recipe.side, *corpora)
    adapted = (
        trim(old, lines, recipe.min_count)
        if recipe.added is None
        else extend(old, lines, recipe.added, recipe.min_count)
    )
    adapted.save(out)
    return {"size": len(adapted), "upstream_size": len(old), "fingerprint": adapted.fingerprint}


def _of_model(tokenizers: Mapping[SideName, Tokenizer], side: SideName, shared: bool) -> Tokenizer:
    """Raises UserError if the sides should share one vocabulary and have two."""
    if shared and len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) > 1:
        raise UserError(
            "this model's sides have a vocabulary each, so there is none of both to extend or trim",
            hint="Leave out downstream.shared, or learn one vocabulary for both: `mode: replace`.",
        )
    return tokenizers[side]
