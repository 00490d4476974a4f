"""PretrainedModel and Vocabulary → IntrinsicQuality: an initialiser's rows for tokens whose rows are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from subgraft.embeddings.transplanting.intrinsic import measure
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.recipes.evaluation import IntrinsicRecipe
from subgraft.pipeline.stages.artifacts import QUALITY
from subgraft.pipeline.stages.transfer import method_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json


def run(recipe: IntrinsicRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle = Bundle.load(inputs["model"])
    method = method_of(recipe.method, recipe.sides, recipe.max_similar, recipe.seed, inputs)
    sample = recipe.sample
    found: dict[str, Json] = {}
    for side in recipe.sides:
        target = Tokenizer.load(inputs[f"vocabulary/{side}"])
        source = bundle.tokenizers[side]
        found[side] = asdict(measure(bundle.model, side, source, target, method, sample.tokens, sample.seed))
    (out / QUALITY).write_text(json.dumps(found, indent=1) + "\n")
    return {**found, "artifacts": [QUALITY]}
