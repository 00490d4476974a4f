"""Corpora → SeenPairs: which test pairs occur in the text that a model was trained on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.seen_pairs import SeenPairs
from subgraft.pipeline.recipes.evaluation import SeenPairsRecipe
from subgraft.pipeline.stages.stage import SEEN, Inputs, Summary
from subgraft.training.context import Context


def run(recipe: SeenPairsRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Inputs: `corpus`, with the test set, and the training corpora under all other roles."""
    del context
    training = (Corpus.open(inputs[role]) for role in sorted(inputs) if role != "corpus")
    pairs = list(Corpus.open(inputs["corpus"]).pairs("test"))[: recipe.test_sentences]
    seen = asdict(SeenPairs.of(pairs, training))
    (out / SEEN).write_text(json.dumps(seen) + "\n", encoding="utf-8")
    return {**seen, "artifacts": [SEEN]}
