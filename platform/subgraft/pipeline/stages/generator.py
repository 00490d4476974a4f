"""PretrainedModel and its corpus → Generator: trained on simulated new tokens, all else frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator import Generator, save_generators
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import GeneratorRecipe
from subgraft.pipeline.stages.generators_by_side import Views, train_by_side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json
from subgraft.training.objectives.mixture import MixedLoss, Mixture
from subgraft.training.schedule import Data
from subgraft.training.setup import is_writer


def run(recipe: GeneratorRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)
    targets = _targets(recipe, inputs)

    def begin(name: SideName, of_table: SideName) -> Generator:
        table = side_of(bundle.model, of_table).input.weight
        generator = Generator(recipe.kind, table.shape[1], recipe.generator.literal_equation)
        if recipe.generator.initial_weights == "normal":
            # The two sides must not get the same numbers.
            generator.draw(2 * recipe.seed + (name == "decoder"))
        return generator

    def training(generator: Generator, name: SideName, views: Views) -> tuple[GeneratorLoss | MixedLoss, Data]:
        return _training(recipe, bundle, generator, views, bundle.tokenizers[name], targets.get(name))

    found = train_by_side(
        recipe,
        bundle,
        corpus,
        out,
        context,
        group="generator_training",
        max_similar=recipe.generator.max_similar,
        begin=begin,
        training=training,
    )
    if is_writer():
        save_generators(found.generators, found.origins, out)
    return found.summary


def _targets(recipe: GeneratorRecipe, inputs: Mapping[str, Path]) -> dict[SideName, Tokenizer]:
    """The task's vocabularies, if tokens similar to its new ones are simulated."""
    if recipe.generator.resegmentation.match is None:
        return {}
    return {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in recipe.sides}


def _training(
    recipe: GeneratorRecipe,
    bundle: Bundle,
    generator: Generator,
    views: Views,
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
