"""Corpus and Vocabulary → StaticEmbeddings: vectors of its tokens, learnt from one side of the training text."""

from __future__ import annotations

from pathlib import Path

from subgraft.data.text.corpus import Corpus, training_lines
from subgraft.embeddings.initialisers.static_embeddings import RECORD, train_static
from subgraft.pipeline.recipes.vocabularies import StaticEmbeddingsRecipe
from subgraft.pipeline.stages.stage import Inputs, Summary, further_corpora
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context


def train_static_embeddings(recipe: StaticEmbeddingsRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    tokenizer = Tokenizer.load(inputs["vocabulary"])
    corpora = [Corpus.open(inputs["corpus"]), *map(Corpus.open, further_corpora(inputs))]
    corpora += [Corpus.open(inputs["text"])] if "text" in inputs else []
    embeddings = train_static(training_lines(recipe.side, *corpora), tokenizer, recipe.algorithm, recipe.settings)
    embeddings.save(out)
    known = int(embeddings.known.sum())
    return {"algorithm": recipe.algorithm, "tokens": len(tokenizer), "known": known, "artifacts": [RECORD]}
