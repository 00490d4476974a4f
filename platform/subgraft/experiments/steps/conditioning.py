"""The step that gives a system's language model a source to write for."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.modeling.conditioning.source_settings import pretrained_source
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.models import CheckpointRecipe, ConditionRecipe
from subgraft.pipeline.recipes.vocabularies import VocabularyRecipe


def conditioned_step(inputs: InputSteps, system: System, seed: int, model: Step) -> Step:
    """The model with the task's source; the model itself where the system has no conditioning.

    It comes behind a transfer, so that what is new is the same whatever the vocabulary.
    """
    if system.conditioning is None:
        return model
    experiment = inputs.experiment
    source = TASKS[experiment.task].source
    assert source is not None  # validation requires it
    # A pretrained encoder's location does not identify it.
    settings = experiment.conditioning.model_copy(update={"pretrained_encoder": None})
    read, language = {"model": model, "corpus": inputs.downstream_corpus}, None
    if source == "text" and system.conditioning != "prepend" and not settings.shared_vocabulary:
        named = experiment.conditioning.pretrained_encoder
        if named:
            read["reader"], language = reader(inputs, named)
        else:
            read["encoder"] = source_vocabulary(inputs)
    recipe = ConditionRecipe(
        variant=system.conditioning,
        settings=settings,
        seed=seed,
        source=source,
        copying=system.copying,
        language=language,
    )
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stages.CONDITION, f"condition {system.name} seed {seed}", recipe, read, labels)


def reader(inputs: InputSteps, named: str) -> tuple[Step[CheckpointRecipe], str | None]:
    """The model whose encoder reads the task's sources, and their language if it marks languages.

    Raises UserError for a model that has no encoder to lend, or does not know the language.
    """
    experiment, model = inputs.experiment, inputs.model_named(named)
    directory = require_model(model)
    try:
        pretrained_source(read_config(directory), experiment.conditioning.max_length)
        language = _language_marked(directory, experiment.languages.source)
    except UserError as error:
        raise UserError(error.what, where=f"conditioning.pretrained_encoder: {named}", hint=error.hint) from None
    return from_checkpoint(f"checkpoint {named}", model, directory), language


def _language_marked(directory: Path, language: str) -> str | None:
    """The language if the model marks its inputs with it. Raises UserError for an unknown language."""
    config, tokenizer = read_config(directory), load_tokenizers(directory)["encoder"]
    family, pair = family_of(config), Languages(source=language, target=language)
    marked = family.sequence_format(config, tokenizer, tokenizer, pair)
    try:
        return None if family.sequence_format(config, tokenizer, tokenizer, None) == marked else language
    except UserError:
        return language


def source_vocabulary(inputs: InputSteps) -> Step[VocabularyRecipe]:
    """The one that all systems read the task's sources in."""
    recipe = VocabularyRecipe(side="source", settings=inputs.experiment.conditioning.vocabulary)
    corpus = inputs.downstream_corpus
    return Step(stages.VOCABULARY, f"vocabulary of the sources of {corpus.name}", recipe, {"corpus": corpus})
