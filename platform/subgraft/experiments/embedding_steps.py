"""Steps that train generators and new embeddings for the systems of an experiment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.experiment import Experiment
from subgraft.config.settings_base import SideName
from subgraft.config.systems import System
from subgraft.config.training import TrainingSettings
from subgraft.experiments.upstream_steps import UpstreamSteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.embeddings import (
    NETWORK_FILES,
    GeneratorRecipe,
    ImportedNetworkRecipe,
    MixingKind,
    NetworkRecipe,
    VocadtRecipe,
)


def generator_step(beginnings: UpstreamSteps, system: System, model: Step) -> Step | None:
    """The generator that a system needs for its model. Raises UserError where one is given that is not there."""
    if system.generator is None:
        return None
    if not system.trains_network:
        return _mixing(beginnings, system, model)
    given = beginnings.experiment.network.trained
    return _network(beginnings, system, model) if given is None else _given(beginnings, given)


def _mixing(beginnings: UpstreamSteps, system: System, model: Step) -> Step:
    experiment = beginnings.experiment
    recipe = GeneratorRecipe(
        objectives=experiment.upstream.objectives,
        languages=experiment.upstream_languages,
        sides=experiment.sides,
        kind=cast(MixingKind, system.generator),  # a network is made elsewhere
        kd_weight=system.kd_weight or 0.0,
        generator=experiment.generator,
        training=_training(experiment.generator_training, system),
        seed=experiment.upstream.seed,
    )
    inputs = {"model": model, "corpus": beginnings.upstream_corpus}
    if experiment.generator.resegmentation.match:
        vocabularies = beginnings.vocabularies_of(system)
        inputs |= {f"vocabulary/{side}": vocabularies[side] for side in experiment.sides}
    return Step(stages.GENERATOR, f"generator {system.name}", recipe, inputs)


def _network(beginnings: UpstreamSteps, system: System, model: Step) -> Step:
    """The network of the model, which is the same for every task."""
    experiment = beginnings.experiment
    assert experiment.network_training is not None
    recipe = NetworkRecipe(
        objectives=experiment.upstream.objectives,
        languages=experiment.upstream_languages,
        sides=experiment.sides,
        kd_weight=system.kd_weight or 0.0,
        network=experiment.network,
        training=_training(experiment.network_training, system),
        seed=experiment.upstream.seed,
    )
    return Step(stages.NETWORK, "network", recipe, {"model": model, "corpus": beginnings.upstream_corpus})


def _given(beginnings: UpstreamSteps, given: str) -> Step:
    """A network that was trained before, brought into the store."""
    directory = beginnings.beside(given)
    digest = hashlib.sha256()
    for name in NETWORK_FILES:
        if not (directory / name).is_file():
            hint = "`subgraft generator train` makes such a directory."
            raise UserError(f"no trained network here: it lacks {name}", where=str(directory), hint=hint)
        digest.update(f"{name} {file_digest(directory / name)}\n".encode())
    recipe = ImportedNetworkRecipe(
        digest=digest.hexdigest(), sides=beginnings.experiment.sides, directory=str(directory)
    )
    return Step(stages.IMPORTED_NETWORK, "network as given", recipe)


def _training(training: TrainingSettings, system: System) -> TrainingSettings:
    """The generator's training, for as many steps as the system says."""
    return training.model_copy(update={"max_steps": system.generator_steps}) if system.generator_steps else training


# The training of new tokens' rows by VocADT, as a step of an experiment.


def vocadt_step(experiment: Experiment, model: Step, corpus: Step, vocabularies: Mapping[SideName, Step]) -> Step:
    """Rows of the new tokens of all sides, as combinations of all old rows; all seeds share them."""
    assert experiment.vocadt_training is not None
    recipe = VocadtRecipe(
        languages=experiment.languages,
        sides=experiment.sides,
        training=experiment.vocadt_training,
        seed=experiment.upstream.seed,
        max_train_examples=experiment.finetune.max_train_examples,
    )
    inputs = {"model": model, "corpus": corpus}
    inputs |= {f"vocabulary/{side}": vocabularies[side] for side in experiment.sides}
    return Step(stages.VOCADT, "vocadt", recipe, inputs)
