"""What must hold between the settings of what makes new rows, and the rest of an experiment."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.initialiser_registry import LEARNINGS, facts_of


def require_width_of_table(experiment: Comparison) -> None:
    """A checkpoint's width is not known before it is there."""
    width = experiment.static_embeddings.dimensions
    unmapped = [system.name for system in experiment.systems if facts_of(system.initialiser).as_they_are]
    if unmapped and experiment.upstream.checkpoint is None and width not in (None, experiment.model.width_of_rows):
        raise ValueError(
            f"system {unmapped[0]} takes static embeddings as they are: static_embeddings.dimensions is {width}, "
            f"the model's embeddings have {experiment.model.width_of_rows}"
        )


def require_trainable_network(experiment: Comparison) -> None:
    named = [system.name for system in experiment.systems if system.trains_network and experiment.trains(system)]
    if named and experiment.network_training is None:
        raise ValueError(f"system {named[0]} needs network_training: the training of its network")


def require_learnable_rows(experiment: Comparison) -> None:
    """Learnt rows need their training's settings, and sides that they can be learnt for."""
    for name in filter(experiment.learns, LEARNINGS):
        facts = LEARNINGS[name]
        if getattr(experiment, facts.training) is None:
            raise ValueError(f"systems of {name} need {facts.training}")
        if facts.decoder_alone and experiment.sides != ("decoder",):
            raise ValueError(f"{name} learns what a decoder predicts: its systems need `sides: [decoder]`")


def require_layer(experiment: Comparison) -> None:
    """A checkpoint's depth is not known before it is there."""
    depth = min(experiment.model.depth(side) for side in experiment.sides)
    here = experiment.learns("token-distillation") and experiment.upstream.checkpoint is None
    if here and (experiment.token_distillation.layer or 1) > depth:
        raise ValueError(
            f"token_distillation.layer {experiment.token_distillation.layer} is beyond the {depth} layers of a side"
        )


def require_own_translations(experiment: Comparison) -> None:
    """A model has translations of its own before it is finetuned only if it was pretrained to translate."""
    if not experiment.learns("likelihood-matching"):
        return
    if experiment.likelihood_matching.text == "own-translations" and not experiment.upstream.translates:
        raise ValueError(
            "likelihood_matching.text own-translations needs a model that can translate before it is finetuned: "
            "translation must be among upstream.objectives"
        )
