"""Masked language model → encoder-decoder initialised with its weights on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.pipeline.recipes.models import AssembleRecipe
from subgraft.training.context import Context, Json


def run(recipe: AssembleRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle = assembled(inputs["model"], recipe.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def assembled(model: Path | str, seed: int) -> Bundle:
    """The encoder-decoder of a directory or hub id. Raises UserError for a model that already generates text."""
    bundle = Bundle.load(model)
    family = family_of(bundle.model)
    if family.generates:
        raise UserError(f"a {family.model_type} model generates text as it is: nothing to assemble", where=str(model))
    return Bundle(family.assemble(bundle.model, bundle.encoder, seed), bundle.encoder, bundle.decoder)
