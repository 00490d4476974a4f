"""PretrainedModel and its corpus → Generator: trained on simulated unseen tokens, all else frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from subgraft.config.base import SideName
from subgraft.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.generators.generator_loss import GeneratorLoss
from subgraft.generators.masked_generator_loss import MaskedGeneratorLoss
from subgraft.generators.masked_simulation import MaskedSimulator
from subgraft.generators.simulation import Simulator
from subgraft.models.bundle import Bundle
from subgraft.models.sides import side as side_of
from subgraft.recipes.generator import GeneratorRecipe
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import fit, is_writer, write_curve
from subgraft.stages.upstream import masked_sentences, upstream_objective
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data
from subgraft.vocabulary.tokenizer import Tokenizer


def run(recipe: GeneratorRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle = Bundle.load(inputs["model"])
    corpus = Corpus.open(inputs["corpus"], context.cache)
    targets = _targets(recipe, inputs)
    train = _masked(recipe, bundle, corpus, targets) if recipe.masking else _seq2seq(recipe, bundle, corpus, targets)
    generators: dict[str, Generator] = {}
    origins: dict[str, GeneratorOrigin] = {}
    summary: dict[str, Json] = {}
    for name in recipe.sides:
        table = side_of(bundle.model, name).input.weight
        tokenizer = bundle.tokenizers[name]
        origins[name] = GeneratorOrigin(table_digest(table), tokenizer.fingerprint, recipe.generator.max_similar)
        if recipe.masking and generators:
            # A masked language model has one table and one loss, whichever side the rows are for.
            generators[name] = next(iter(generators.values()))
            continue
        generators[name] = Generator(recipe.kind, table.shape[1], recipe.generator.literal_equation)
        if recipe.generator.initial_weights == "normal":
            # The two sides must not get the same numbers.
            generators[name].draw(2 * recipe.seed + (name == "decoder"))
        loss, data = train(generators[name], name)
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
    if is_writer():
        save_generators(generators, origins, out)
    return summary


def _targets(recipe: GeneratorRecipe, inputs: Mapping[str, Path]) -> dict[SideName, Tokenizer]:
    """The task's vocabularies, where tokens like its new ones are simulated."""
    if recipe.generator.resegmentation.match is None:
        return {}
    return {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in recipe.sides}


_Training = Callable[[Generator, SideName], tuple[GeneratorLoss | MaskedGeneratorLoss, Data]]


def _seq2seq(
    recipe: GeneratorRecipe, bundle: Bundle, corpus: Corpus, targets: Mapping[SideName, Tokenizer]
) -> _Training:
    """The loss and the batches of an encoder-decoder, for one side's generator."""
    settings, training, seed = recipe.generator, recipe.training, recipe.seed
    objective = upstream_objective(recipe.objective, bundle, corpus, recipe.languages, recipe.noise, training, seed)
    sides = {each: side_of(bundle.model, each) for each in bundle.tokenizers}

    def prepare(generator: Generator, name: SideName) -> tuple[GeneratorLoss, Data]:
        tokenizer, similar = bundle.tokenizers[name], settings.max_similar
        data = Simulator(
            objective,
            tokenizer,
            name,
            settings.resegmentation,
            similar,
            seed,
            bundle.padding,
            bundle.max_positions,
            settings.negatives,
            targets.get(name),
        )
        smoothing, position = training.label_smoothing, settings.distillation_position
        return GeneratorLoss(bundle.model, generator, sides, name, recipe.kd_weight, smoothing, position), data

    return prepare


def _masked(
    recipe: GeneratorRecipe, bundle: Bundle, corpus: Corpus, targets: Mapping[SideName, Tokenizer]
) -> _Training:
    """The same of a masked language model."""
    settings, training, seed = recipe.generator, recipe.training, recipe.seed
    assert recipe.masking is not None
    sentences = masked_sentences(bundle, corpus, recipe.languages, recipe.masking, training, seed)

    def prepare(generator: Generator, name: SideName) -> tuple[MaskedGeneratorLoss, Data]:
        tokenizer, similar = bundle.tokenizers[name], settings.max_similar
        data = MaskedSimulator(
            sentences,
            tokenizer,
            settings.resegmentation,
            similar,
            seed,
            bundle.max_positions,
            settings.negatives,
            targets.get(name),
        )
        # The decoder's side is the one that knows the projection.
        side = side_of(bundle.model, "decoder")
        return MaskedGeneratorLoss(bundle.model, generator, side, recipe.kd_weight, training.label_smoothing), data

    return prepare
