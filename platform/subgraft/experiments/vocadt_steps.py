"""The training of new tokens' rows by VocADT, as a step of an experiment."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.pipeline import stages
from subgraft.config.settings_base import SideName
from subgraft.config.experiment import Experiment
from subgraft.pipeline.recipes.embeddings import VocadtRecipe
from subgraft.orchestration.store.step import Step


def vocadt_step(experiment: Experiment, model: Step, corpus: Step, vocabularies: Mapping[SideName, Step]) -> Step:
    """Rows of the new tokens of all sides, as combinations of all old rows; all seeds share them."""
    assert experiment.vocadt_training is not None
    recipe = VocadtRecipe(
        languages=experiment.languages,
        sides=experiment.sides,
        training=experiment.vocadt_training,
        seed=experiment.upstream.seed,
        pairs=experiment.finetune.pairs,
    )
    inputs = {"model": model, "corpus": corpus}
    inputs |= {f"vocabulary/{side}": vocabularies[side] for side in experiment.sides}
    return Step(stages.VOCADT, "vocadt", recipe, inputs)
