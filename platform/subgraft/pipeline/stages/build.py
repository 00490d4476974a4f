"""Vocabularies → Model with random weights: the start of a system without pretraining."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.models import ModelSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.pipeline.recipes.models import BuildRecipe
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json


def run(recipe: BuildRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle = build(recipe.model, inputs["encoder"], inputs["decoder"], recipe.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def build(model: ModelSettings, encoder: Path, decoder: Path, seed: int) -> Bundle:
    """A model over the vocabularies in two directories, or over the decoder's if its family has only one."""
    target = Tokenizer.load(decoder)
    source = target if model.one_vocabulary or encoder == decoder else Tokenizer.load(encoder)
    return Bundle(family_named(model.family).build(model, source, target, seed), source, target)
