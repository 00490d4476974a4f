"""The step that gives a system's language model a source to write for."""

from __future__ import annotations

from subgraft import stages
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS
from subgraft.experiment.beginnings import Beginnings
from subgraft.recipes.condition import ConditionRecipe
from subgraft.recipes.vocabulary import VocabularyRecipe
from subgraft.store.step import Step


def conditioned_step(beginnings: Beginnings, system: System, seed: int, model: Step) -> Step:
    """The model with the task's source; the model itself where the system has no conditioning.

    It comes behind a transfer, so that what is new is the same whatever the vocabulary.
    """
    if system.conditioning is None:
        return model
    experiment = beginnings.experiment
    source = TASKS[experiment.task].source
    assert source is not None  # config.conditioning_agreement has seen to it
    recipe = ConditionRecipe(variant=system.conditioning, settings=experiment.conditioning, seed=seed, source=source)
    inputs = {"model": model, "corpus": beginnings.downstream_corpus}
    if source == "text" and system.conditioning != "prepend":
        inputs["encoder"] = source_vocabulary(beginnings)
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stages.CONDITION, f"condition {system.name} seed {seed}", recipe, inputs, labels)


def source_vocabulary(beginnings: Beginnings) -> Step[VocabularyRecipe]:
    """The one that all systems read the task's sources in."""
    recipe = VocabularyRecipe(side="source", settings=beginnings.experiment.conditioning.vocabulary)
    corpus = beginnings.downstream_corpus
    return Step(stages.VOCABULARY, f"vocabulary of the sources of {corpus.name}", recipe, {"corpus": corpus})
