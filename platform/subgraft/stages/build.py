"""Vocabularies → Model with random weights: what a system without pretraining begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.training import ModelSettings
from subgraft.models.build import build_bert, build_marian, build_mbart
from subgraft.models.bundle import Bundle
from subgraft.recipes.build import BuildRecipe
from subgraft.stages.context import Context, Json
from subgraft.vocabulary.tokenizer import Tokenizer


def run(recipe: BuildRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle = build(recipe.model, inputs["encoder"], inputs["decoder"], recipe.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def build(model: ModelSettings, encoder: Path, decoder: Path, seed: int) -> Bundle:
    """A model over the vocabularies in two directories, which for an mBART and a BERT are one."""
    source = Tokenizer.load(encoder)
    target = source if encoder == decoder else Tokenizer.load(decoder)
    shape = model.model_dump(exclude={"family"})
    if model.family == "mbart":
        return Bundle(build_mbart(source, seed=seed, **shape), source, source)
    if model.family == "bert":
        return Bundle(build_bert(source, seed=seed, **shape), source, source)
    return Bundle(build_marian(source, target, seed=seed, **shape), source, target)
