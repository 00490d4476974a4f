"""PretrainedModel and its corpus → Generator: a network over pieces, trained on pseudo-domains, all else frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.domain_simulation import PseudoDomains
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.network import Network, NetworkShape, save_networks
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import NetworkRecipe
from subgraft.pipeline.stages.generators_by_side import Views, train_by_side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json
from subgraft.training.objectives.mixture import MixedLoss, Mixture
from subgraft.training.schedule import Data
from subgraft.training.setup import is_writer


def run(recipe: NetworkRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)

    def begin(name: SideName, of_table: SideName) -> Network:
        side = side_of(bundle.model, of_table)
        network = Network(NetworkShape.of(side, recipe.network.width, recipe.network.layers))
        ordinary = torch.from_numpy(bundle.tokenizers[name].ordinary_ids)
        # The two sides must not get the same numbers.
        network.begin(side, ordinary, 2 * recipe.seed + (name == "decoder"))
        return network

    def training(network: Network, name: SideName, views: Views) -> tuple[GeneratorLoss | MixedLoss, Data]:
        return _training(recipe, bundle, network, views, bundle.tokenizers[name])

    found = train_by_side(
        recipe, bundle, corpus, out, context, group="network_training", max_similar=0, begin=begin, training=training
    )
    if is_writer():
        save_networks(found.generators, found.origins, out)
    return found.summary


def _training(
    recipe: NetworkRecipe,
    bundle: Bundle,
    network: Network,
    views: Views,
    tokenizer: Tokenizer,
) -> tuple[GeneratorLoss | MixedLoss, Data]:
    """The loss and the batches of one side's network: pseudo-domains of one objective, or of each by its weight."""
    smoothing, limit = recipe.training.label_smoothing, bundle.max_positions
    losses = {
        kind: GeneratorLoss(bundle.model, network, view, recipe.kd_weight, smoothing, "input")
        for kind, view in views.items()
    }
    domains = {
        kind: PseudoDomains.drawn(view, tokenizer, recipe.network, recipe.seed, limit) for kind, view in views.items()
    }
    (loss, *others), (only, *_) = losses.values(), domains.values()
    if not others:
        return loss, only
    names = {f"{kind} {number}": kind for kind, drawn in domains.items() for number in range(len(drawn.parts))}
    weights: dict[str, float] = {
        str(each.kind): each.weight / len(domains[each.kind].parts) for each in recipe.objectives
    }
    parts = [part for drawn in domains.values() for part in drawn.parts]
    mixture = Mixture(dict(zip(names, parts, strict=True)), {name: weights[kind] for name, kind in names.items()})
    return MixedLoss(bundle.model, {name: losses[kind] for name, kind in names.items()}, loss.weights), mixture
