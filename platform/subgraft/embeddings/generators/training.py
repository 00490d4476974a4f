"""Generators of embeddings that mix similar tokens: their training on the upstream objectives."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch import nn

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.domain_simulation import PseudoDomains
from subgraft.embeddings.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.network import Network, NetworkShape, load_network, save_networks
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.methods.network import NETWORK_FILES, ImportedNetworkStage, NetworkStage
from subgraft.embeddings.methods.similar_tokens import GeneratorStage
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import shares_table
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.interface import GeneratorView, ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture, objectives_of
from subgraft.training.schedule import Data
from subgraft.training.setup import is_writer, run_training, write_curve
from subgraft.training.stage import Inputs, Summary


def import_network(stage: ImportedNetworkStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del inputs, context
    directory = Path(stage.directory)
    for side in stage.sides:
        load_network(directory, side)
    for name in NETWORK_FILES:
        shutil.copyfile(directory / name, out / name)
    return {"sides": list(stage.sides)}


def train_network(stage: NetworkStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = Bundle.load_to_train(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)

    def create(name: SideName, table_side: SideName) -> Network:
        side = side_of(bundle.model, table_side)
        network = Network(NetworkShape.of(side, stage.network.width, stage.network.layers))
        ordinary = torch.from_numpy(bundle.tokenizers[name].ordinary_ids)
        # The two sides must not get the same random numbers.
        network.begin(side, ordinary, 2 * stage.seed + (name == "decoder"))
        return network

    def training(network: Network, name: SideName, views: Views) -> Training:
        return _network_training(stage, bundle, network, views, bundle.tokenizers[name])

    trained = train_by_side(
        stage, bundle, corpus, out, context, group="network_training", max_similar=0, create=create, training=training
    )
    if is_writer():
        save_networks(trained.generators, trained.origins, out)
    return trained.summary


def _network_training(
    stage: NetworkStage, bundle: Bundle, network: Network, views: Views, tokenizer: Tokenizer
) -> Training:
    """The loss and the batches of one side's network: pseudo-domains of one objective, or of each by its weight."""
    smoothing, limit = stage.training.label_smoothing, bundle.max_positions
    losses = {
        kind: GeneratorLoss(bundle.model, network, view, stage.kd_weight, smoothing, "input")
        for kind, view in views.items()
    }
    domains = {
        kind: PseudoDomains.sample(view, tokenizer, stage.network, stage.seed, limit) for kind, view in views.items()
    }
    (loss, *others), (domain, *_) = losses.values(), domains.values()
    if not others:
        return loss, domain
    names = {
        f"{kind} {number}": kind
        for kind, pseudo_domains in domains.items()
        for number in range(len(pseudo_domains.parts))
    }
    weights: dict[str, float] = {
        str(objective.kind): objective.weight / len(domains[objective.kind].parts)
        for objective in stage.objectives
        if objective.kind in domains
    }
    parts = [part for pseudo_domains in domains.values() for part in pseudo_domains.parts]
    mixture = Mixture(dict(zip(names, parts, strict=True)), {name: weights[kind] for name, kind in names.items()})
    return MixedLoss(bundle.model, {name: losses[kind] for name, kind in names.items()}), mixture


G = TypeVar("G", bound=nn.Module)
Views: TypeAlias = Mapping[str, GeneratorView[Any]]
Training: TypeAlias = tuple[GeneratorLoss | MixedLoss, Data]  # the loss and the batches of one side


@dataclass(frozen=True)
class TrainedGenerators(Generic[G]):
    """The generators by side, their origins, and the summaries of their trainings."""

    generators: dict[SideName, G]
    origins: dict[SideName, GeneratorOrigin]
    summary: Summary


def train_by_side(
    stage: GeneratorStage | NetworkStage,
    bundle: Bundle,
    corpus: Corpus,
    out: Path,
    context: Context,
    *,
    group: str,
    max_similar: int,
    create: Callable[[SideName, SideName], G],
    training: Callable[[G, SideName, Views], Training],
) -> TrainedGenerators[G]:
    """Train a generator for each side that needs one; sides that use the same embeddings get the same one.

    `create` initialises a generator for a side and the side whose embeddings it uses; `training` returns its loss and
    its batches.
    """
    stage = with_named_precision(stage, bundle.model, context)
    request = ObjectiveInputs(bundle, corpus, stage.languages, stage.training, stage.seed)
    objectives = objectives_of(stage.objectives, request, of_tokens=True)
    generators: dict[SideName, G] = {}
    trained: TrainedGenerators[G] = TrainedGenerators({}, {}, {})
    stays_shared = stage.one_vocabulary and shares_table(bundle.model)
    sides: tuple[SideName, ...] = ("decoder", "encoder") if stays_shared else stage.sides
    for name in sides:
        table = side_of(bundle.model, name).input.weight
        trained.origins[name] = GeneratorOrigin(table_digest(table), bundle.tokenizers[name].fingerprint, max_similar)
        views = {kind: objective.view(name) for kind, objective in objectives.items()}
        (table_side,) = {"decoder" if stays_shared else view.side for view in views.values()}
        if table_side not in generators:
            generator = generators[table_side] = create(name, table_side)
            loss, data = training(generator, name, views)
            outcome = run_training(
                loss, loss.weights, data, stage.training, context, group=group, seed=stage.seed, part=name
            )
            trained.summary[name] = write_curve(outcome, out, f"curve.{name}.json")
        trained.generators[name] = generators[table_side]
    return trained


def train_generator(stage: GeneratorStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = Bundle.load_to_train(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)
    # The task's vocabularies, if tokens like its new ones are simulated.
    matched = stage.sides if stage.generator.resegmentation.match else ()
    targets = {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in matched}

    def create(name: SideName, table_side: SideName) -> Generator:
        table = side_of(bundle.model, table_side).input.weight
        generator = Generator(stage.kind, table.shape[1], stage.generator.literal_equation)
        if stage.generator.initial_weights == "normal":
            # The two sides must not get the same random numbers.
            generator.draw(2 * stage.seed + (name == "decoder"))
        return generator

    def training(generator: Generator, name: SideName, views: Views) -> Training:
        return _generator_training(stage, bundle, generator, views, bundle.tokenizers[name], targets.get(name))

    trained = train_by_side(
        stage,
        bundle,
        corpus,
        out,
        context,
        group="generator_training",
        max_similar=stage.generator.max_similar,
        create=create,
        training=training,
    )
    if is_writer():
        save_generators(trained.generators, trained.origins, out)
    return trained.summary


def _generator_training(
    stage: GeneratorStage,
    bundle: Bundle,
    generator: Generator,
    views: Views,
    tokenizer: Tokenizer,
    target: Tokenizer | None,
) -> Training:
    """The loss and the batches of one side's generator."""
    settings, smoothing, limit = stage.generator, stage.training.label_smoothing, bundle.max_positions
    rates, similar, negatives = settings.resegmentation, settings.max_similar, settings.negatives
    position = settings.distillation_position
    losses = {
        kind: GeneratorLoss(bundle.model, generator, view, stage.kd_weight, smoothing, position)
        for kind, view in views.items()
    }
    simulators = {
        kind: Simulator(view, tokenizer, rates, similar, stage.seed, limit, negatives, target)
        for kind, view in views.items()
    }
    (loss, *others), (simulator, *_) = losses.values(), simulators.values()
    if not others:
        return loss, simulator
    mixture = Mixture(simulators, {objective.kind: objective.weight for objective in stage.objectives})
    return MixedLoss(bundle.model, losses), mixture
