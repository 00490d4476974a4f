"""PretrainedModel and its corpus → Generator: trained on simulated unseen tokens, all else frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from subgraft.grafting.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.grafting.generator_loss import GeneratorLoss
from subgraft.grafting.simulation import Simulator
from subgraft.models.bundle import Bundle
from subgraft.models.sides import side as side_of
from subgraft.objectives.seq2seq import Objective
from subgraft.settings import GeneratorSettings, Languages, NoiseSettings, Settings, SideName, TrainingSettings
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import fit, is_writer, write_curve
from subgraft.stages.upstream import upstream_objective
from subgraft.text.corpus import Corpus
from subgraft.training.loop import Outcome


class GeneratorRecipe(Settings):
    objective: Literal["translation", "denoising"]
    languages: Languages
    noise: NoiseSettings
    sides: tuple[SideName, ...]
    kind: Literal["att", "patt"]
    kd_weight: float
    generator: GeneratorSettings
    training: TrainingSettings
    seed: int


def run(recipe: GeneratorRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle = Bundle.load(inputs["model"])
    corpus = Corpus.open(inputs["corpus"])
    objective = upstream_objective(
        recipe.objective, bundle, corpus, recipe.languages, recipe.noise, recipe.training, recipe.seed
    )
    generators: dict[str, Generator] = {}
    origins: dict[str, GeneratorOrigin] = {}
    summary: dict[str, Json] = {}
    for name in recipe.sides:
        table = side_of(bundle.model, name).input.weight
        tokenizer = bundle.tokenizers[name]
        origins[name] = GeneratorOrigin(table_digest(table), tokenizer.fingerprint, recipe.generator.max_similar)
        generators[name] = Generator(recipe.kind, table.shape[1], recipe.generator.literal_equation)
        outcome = _train(recipe, bundle, objective, generators[name], name, context)
        summary[name] = write_curve(outcome, out, f"curve.{name}.json")
    if is_writer():
        save_generators(generators, origins, out)
    return summary


def _train(
    recipe: GeneratorRecipe,
    bundle: Bundle,
    objective: Objective,
    generator: Generator,
    name: SideName,
    context: Context,
) -> Outcome:
    settings = recipe.generator
    simulator = Simulator(
        objective,
        bundle.tokenizers[name],
        name,
        settings.resegmentation,
        settings.max_similar,
        recipe.seed,
        bundle.padding,
    )
    sides = {each: side_of(bundle.model, each) for each in bundle.tokenizers}
    loss = GeneratorLoss(
        bundle.model,
        generator,
        sides,
        name,
        recipe.kd_weight,
        recipe.training.label_smoothing,
        settings.distillation_position,
    )
    return fit(loss, loss.weights, simulator, recipe.training, context, seed=recipe.seed, part=name)
