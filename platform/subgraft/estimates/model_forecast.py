"""The model that a step makes or trains, before it is there: its configuration, and how many parameters it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from subgraft import stages
from subgraft.config.base import SideName
from subgraft.estimates.memory_estimate import Dimensions
from subgraft.models.hub import read_config, resolve_model
from subgraft.models.parameter_count import (
    Parameters,
    as_both_sides,
    count_parameters,
    described,
    vocabulary_sizes,
    with_vocabularies,
)
from subgraft.recipes.finetune import FinetuneRecipe
from subgraft.store.store import Store

if TYPE_CHECKING:
    from subgraft.store.step import Step

Config = Mapping[str, Any]
# Rows of weights that a generator has, by its kind: one for all similar tokens, or one for each of the six relations.
GENERATOR_ROWS = {"att": 1, "patt": 6}


def model_config(store: Store, step: Step) -> Config:
    """config.json of the model that a step makes; of one that is not made yet, in all that parameters depend on."""
    if store.find(step) is not None:
        return read_config(store.path(step))
    recipe: Any = step.recipe
    if step.stage is stages.CHECKPOINT:
        return read_config(resolve_model(recipe.model))
    if step.stage in (stages.PRETRAIN, stages.BUILD) and recipe.model is not None:
        sizes = [vocabulary_size(store, step.inputs[side]) for side in ("encoder", "decoder")]
        return described(recipe.model, *sizes)
    before = model_config(store, step.inputs["model"])
    if step.stage is stages.ASSEMBLE:
        return as_both_sides(before)
    if step.stage is stages.TRANSFER:
        new = {side: vocabulary_size(store, step.inputs[f"vocabulary/{side}"]) for side in recipe.sides}
        return with_vocabularies(before, new)
    return before


def vocabulary_size(store: Store, vocabulary: Step) -> int:
    """Of a vocabulary that is there, or as many as it is to have."""
    record = store.find(vocabulary)
    recipe: Any = vocabulary.recipe
    return int(record.summary["size"]) if record is not None else int(recipe.settings.size)


def training_parameters(store: Store, step: Step) -> Parameters:
    """What a training step holds and what of that it trains.

    Of distillations, as if all tokens of the new vocabulary were new: that is known only when they are compared.
    """
    recipe: Any = step.recipe
    config = model_config(store, step if step.stage is stages.PRETRAIN else step.inputs["model"])
    finetuning = isinstance(recipe, FinetuneRecipe)
    frozen = recipe.fast_tables if finetuning and recipe.training.embedding_learning_rate == 0 else ()
    model, width = counted(config, frozen), Dimensions.of(config).width
    if step.stage is stages.GENERATOR:
        added = GENERATOR_ROWS[recipe.kind] * width
        return Parameters(model.total + added, added)
    if step.stage is stages.DISTILLATION:
        added = max(vocabulary_size(store, step.inputs[f"vocabulary/{side}"]) for side in recipe.sides) * width
        return Parameters(model.total + added, added)
    if step.stage is stages.MATCHING:
        # The student's tables stand beside the model's, and what is added to them is trained, a bias with them.
        size, tied = vocabulary_size(store, step.inputs["vocabulary/decoder"]), config.get("tie_word_embeddings", True)
        added = size * (width * (1 if tied else 2) + 1)
        return Parameters(model.total + 2 * added, added)
    if step.stage is stages.FINETUNE and recipe.attached:
        # Old tables are trained beside the rests of the new ones, which are as large as the tables they stand for.
        upstream = model_config(store, step.inputs["upstream"])
        old = sum(vocabulary_sizes(upstream)[side] for side in recipe.attached) * width
        new = sum(vocabulary_sizes(config)[side] for side in recipe.attached) * width
        return Parameters(model.total + old + new, model.trained + old)
    return model


def counted(config: Config, frozen: tuple[SideName, ...] = ()) -> Parameters:
    """Parameters of the model that a config.json describes; each configuration is looked at once."""
    return _counted(json.dumps(dict(config), sort_keys=True, default=str), frozen)


@lru_cache(maxsize=64)
def _counted(config: str, frozen: tuple[SideName, ...]) -> Parameters:
    return count_parameters(json.loads(config), frozen)
