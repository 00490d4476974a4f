"""Masked language model → encoder-decoder that begins with its weights on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transformers import BertForMaskedLM

from subgraft.errors import UserError
from subgraft.models.bert2bert import assemble
from subgraft.models.bundle import Bundle
from subgraft.recipes.assemble import AssembleRecipe
from subgraft.stages.context import Context, Json


def run(recipe: AssembleRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle = assembled(inputs["model"], recipe.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def assembled(model: Path | str, seed: int) -> Bundle:
    """The encoder-decoder of a directory or hub id. Raises UserError where that holds no masked language model."""
    bundle = Bundle.load(model)
    if not isinstance(bundle.model, BertForMaskedLM):
        raise UserError("only a BERT is made into an encoder-decoder", where=str(model))
    return Bundle(assemble(bundle.model, bundle.encoder, seed), bundle.encoder, bundle.decoder)
