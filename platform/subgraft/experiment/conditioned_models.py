"""The step that gives a system's language model a class to write for."""

from __future__ import annotations

from subgraft import stages
from subgraft.config.systems import System
from subgraft.experiment.beginnings import Beginnings
from subgraft.recipes.condition import ConditionRecipe
from subgraft.store.step import Step


def conditioned_step(beginnings: Beginnings, system: System, seed: int, model: Step) -> Step:
    """The model with the task's classes as its source; the model itself where the system has no conditioning.

    It comes behind a transfer, so that what is new is the same whatever the vocabulary.
    """
    if system.conditioning is None:
        return model
    recipe = ConditionRecipe(variant=system.conditioning, settings=beginnings.experiment.conditioning, seed=seed)
    inputs = {"model": model, "corpus": beginnings.downstream_corpus}
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stages.CONDITION, f"condition {system.name} seed {seed}", recipe, inputs, labels)
