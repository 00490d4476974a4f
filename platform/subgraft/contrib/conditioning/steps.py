"""The step that gives the language model of a system a source, and its inputs."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment.systems import System
from subgraft.contrib.conditioning.source_settings import pretrained_source
from subgraft.contrib.conditioning.stage import ConditionStage
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.modeling.conditioning.variants.registry import VARIANTS
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.models import CheckpointStage
from subgraft.pipeline.stages.vocabularies import VocabularyStage
from subgraft.training.objectives.registry import task_objective


def conditioned_step(inputs: InputSteps, system: System, seed: int, model: Step) -> Step:
    """The model of a system with conditioning, conditioned on the task's source."""
    assert system.conditioning is not None
    experiment = inputs.experiment
    source = task_objective(experiment.task).source
    assert source is not None  # validation requires it
    # A pretrained encoder's location does not identify it.
    settings = experiment.conditioning.model_copy(update={"pretrained_encoder": None})
    step_inputs, language = {"model": model, "corpus": inputs.downstream_corpus}, None
    if source == "text" and not VARIANTS[system.conditioning].in_input and not settings.shared_vocabulary:
        path = experiment.conditioning.pretrained_encoder
        if path:
            step_inputs["reader"], language = reader(inputs, path)
        else:
            step_inputs["encoder"] = source_vocabulary(inputs)
    stage = ConditionStage(
        variant=system.conditioning,
        settings=settings,
        seed=seed,
        source=source,
        copying=system.copying,
        language=language,
    )
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stage, f"condition {system.name} seed {seed}", step_inputs, labels)


def reader(inputs: InputSteps, name: str) -> tuple[Step[CheckpointStage], str | None]:
    """The model whose encoder reads the task's sources, and their language if the model marks languages.

    Raises UserError for a model whose encoder cannot be used, or that does not know the language.
    """
    experiment, model = inputs.experiment, inputs.locate_model(name)
    directory = require_model(model)
    try:
        pretrained_source(read_config(directory), experiment.conditioning.max_length)
        language = _language_marked(directory, experiment.languages.source)
    except UserError as error:
        raise UserError(error.what, where=f"conditioning.pretrained_encoder: {name}", hint=error.hint) from None
    return from_checkpoint("checkpoint", model, directory), language


def _language_marked(directory: Path, language: str) -> str | None:
    """The language if the model marks its inputs with it, else None. Raises UserError for an unknown language."""
    config, tokenizer = read_config(directory), load_tokenizers(directory)["encoder"]
    family, pair = family_of(config), Languages(source=language, target=language)
    marked = family.sequence_format(config, tokenizer, tokenizer, pair)
    try:
        return None if family.sequence_format(config, tokenizer, tokenizer, None) == marked else language
    except UserError:
        return language


def source_vocabulary(inputs: InputSteps) -> Step[VocabularyStage]:
    """The vocabulary of the task's sources, shared by all systems."""
    stage = VocabularyStage(side="source", settings=inputs.experiment.conditioning.vocabulary)
    corpus = inputs.downstream_corpus
    return Step(stage, f"vocabulary of the sources of {corpus.name}", {"corpus": corpus})
