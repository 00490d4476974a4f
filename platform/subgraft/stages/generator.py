"""PretrainedModel and its corpus → Generator: trained on simulated unseen tokens, all else frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subgraft.config.base import SideName
from subgraft.generators.description import GeneratorOrigin, table_digest
from subgraft.generators.generator import Generator, save_generators
from subgraft.generators.generator_loss import GeneratorLoss
from subgraft.generators.simulation import Simulator
from subgraft.models.bundle import Bundle
from subgraft.models.sides import side as side_of
from subgraft.objectives.mixture import MixedLoss, Mixture
from subgraft.objectives.objective import GeneratorView, Request
from subgraft.objectives.table import objectives_of
from subgraft.recipes.generator import GeneratorRecipe
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import fit, is_writer, write_curve
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data
from subgraft.vocabulary.tokenizer import Tokenizer


def run(recipe: GeneratorRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)
    targets = _targets(recipe, inputs)
    request = Request(bundle, corpus, recipe.languages, recipe.training, recipe.seed)
    objectives = objectives_of(recipe.objectives, request)
    made: dict[SideName, Generator] = {}
    generators: dict[str, Generator] = {}
    origins: dict[str, GeneratorOrigin] = {}
    summary: dict[str, Json] = {}
    for name in recipe.sides:
        table = side_of(bundle.model, name).input.weight
        tokenizer = bundle.tokenizers[name]
        origins[name] = GeneratorOrigin(table_digest(table), tokenizer.fingerprint, recipe.generator.max_similar)
        views = {kind: objective.view(name) for kind, objective in objectives.items()}
        # A model that has one table for both sides gets one generator, whichever side it is asked for.
        (of_table,) = {view.side for view in views.values()}
        if of_table not in made:
            generator = made[of_table] = Generator(recipe.kind, table.shape[1], recipe.generator.literal_equation)
            if recipe.generator.initial_weights == "normal":
                # The two sides must not get the same numbers.
                generator.draw(2 * recipe.seed + (name == "decoder"))
            loss, data = _training(recipe, bundle, generator, views, tokenizer, targets.get(name))
            outcome = fit(
                loss,
                loss.weights,
                data,
                recipe.training,
                context,
                group="generator_training",
                seed=recipe.seed,
                part=name,
            )
            summary[name] = write_curve(outcome, out, f"curve.{name}.json")
        generators[name] = made[of_table]
    if is_writer():
        save_generators(generators, origins, out)
    return summary


def _targets(recipe: GeneratorRecipe, inputs: Mapping[str, Path]) -> dict[SideName, Tokenizer]:
    """The task's vocabularies, where tokens like its new ones are simulated."""
    if recipe.generator.resegmentation.match is None:
        return {}
    return {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in recipe.sides}


def _training(
    recipe: GeneratorRecipe,
    bundle: Bundle,
    generator: Generator,
    views: Mapping[str, GeneratorView[Any]],
    tokenizer: Tokenizer,
    target: Tokenizer | None,
) -> tuple[GeneratorLoss | MixedLoss, Data]:
    """The loss and the batches of one side's generator."""
    settings, smoothing, limit = recipe.generator, recipe.training.label_smoothing, bundle.max_positions
    rates, similar, negatives = settings.resegmentation, settings.max_similar, settings.negatives
    position = settings.distillation_position
    losses = {
        kind: GeneratorLoss(bundle.model, generator, view, recipe.kd_weight, smoothing, position)
        for kind, view in views.items()
    }
    simulators = {
        kind: Simulator(view, tokenizer, rates, similar, recipe.seed, limit, negatives, target)
        for kind, view in views.items()
    }
    (loss, *others), (simulator, *_) = losses.values(), simulators.values()
    if not others:
        return loss, simulator
    mixture = Mixture(simulators, {each.kind: each.weight for each in recipe.objectives})
    return MixedLoss(bundle.model, losses, loss.weights), mixture
