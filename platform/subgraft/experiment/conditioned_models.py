"""The step that gives a system's language model a source to write for."""

from __future__ import annotations

from subgraft import stages
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS
from subgraft.errors import UserError
from subgraft.experiment.beginnings import Beginnings, taken_over
from subgraft.models.hub import read_config, require_model
from subgraft.models.source_settings import pretrained_source
from subgraft.recipes.checkpoint import CheckpointRecipe
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
    # Where a pretrained encoder lies is no part of what it is.
    settings = experiment.conditioning.model_copy(update={"pretrained_encoder": None})
    recipe = ConditionRecipe(
        variant=system.conditioning, settings=settings, seed=seed, source=source, copying=system.copying
    )
    inputs = {"model": model, "corpus": beginnings.downstream_corpus}
    if source == "text" and system.conditioning != "prepend" and not settings.shared_vocabulary:
        named = experiment.conditioning.pretrained_encoder
        inputs |= {"reader": reader(beginnings, named)} if named else {"encoder": source_vocabulary(beginnings)}
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stages.CONDITION, f"condition {system.name} seed {seed}", recipe, inputs, labels)


def reader(beginnings: Beginnings, named: str) -> Step[CheckpointRecipe]:
    """The model whose encoder reads the task's sources. Raises UserError for one that has none to lend."""
    where, model = "conditioning.pretrained_encoder", beginnings.model_named(named)
    directory = require_model(model)
    try:
        pretrained_source(read_config(directory), beginnings.experiment.conditioning.max_length)
    except UserError as error:
        raise UserError(error.what, where=f"{where}: {named}", hint=error.hint) from None
    return taken_over(f"checkpoint {named}", model, directory)


def source_vocabulary(beginnings: Beginnings) -> Step[VocabularyRecipe]:
    """The one that all systems read the task's sources in."""
    recipe = VocabularyRecipe(side="source", settings=beginnings.experiment.conditioning.vocabulary)
    corpus = beginnings.downstream_corpus
    return Step(stages.VOCABULARY, f"vocabulary of the sources of {corpus.name}", recipe, {"corpus": corpus})
