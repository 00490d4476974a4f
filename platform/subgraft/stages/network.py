"""PretrainedModel and its corpus → Generator: a network over pieces, trained on pseudo-domains, all else frozen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from subgraft.config.base import SideName
from subgraft.generators.description import GeneratorOrigin, table_digest
from subgraft.generators.domain_simulation import PseudoDomains
from subgraft.generators.generator_loss import GeneratorLoss
from subgraft.generators.network import Network, NetworkShape, save_networks
from subgraft.models.bundle import Bundle
from subgraft.models.sides import side as side_of
from subgraft.objectives.mixture import MixedLoss, Mixture
from subgraft.objectives.objective import GeneratorView, Request
from subgraft.objectives.table import objectives_of
from subgraft.recipes.network import NetworkRecipe
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import fit, is_writer, write_curve
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data
from subgraft.vocabulary.tokenizer import Tokenizer


def run(recipe: NetworkRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"], context.cache)
    request = Request(bundle, corpus, recipe.languages, recipe.training, recipe.seed)
    objectives = objectives_of(recipe.objectives, request)
    made: dict[SideName, Network] = {}
    networks: dict[SideName, Network] = {}
    origins: dict[SideName, GeneratorOrigin] = {}
    summary: dict[str, Json] = {}
    for name in recipe.sides:
        side, tokenizer = side_of(bundle.model, name), bundle.tokenizers[name]
        origins[name] = GeneratorOrigin(table_digest(side.input.weight), tokenizer.fingerprint, max_similar=0)
        views = {kind: objective.view(name) for kind, objective in objectives.items()}
        # A model that has one table for both sides gets one network, whichever side it is asked for.
        (of_table,) = {view.side for view in views.values()}
        if of_table not in made:
            whole = side_of(bundle.model, of_table)
            network = made[of_table] = Network(NetworkShape.of(whole, recipe.network.width, recipe.network.layers))
            # The two sides must not get the same numbers.
            network.begin(whole, torch.from_numpy(tokenizer.ordinary_ids), 2 * recipe.seed + (name == "decoder"))
            loss, data = _training(recipe, bundle, network, views, tokenizer)
            outcome = fit(
                loss,
                loss.weights,
                data,
                recipe.training,
                context,
                group="network_training",
                seed=recipe.seed,
                part=name,
            )
            summary[name] = write_curve(outcome, out, f"curve.{name}.json")
        networks[name] = made[of_table]
    if is_writer():
        save_networks(networks, origins, out)
    return summary


def _training(
    recipe: NetworkRecipe,
    bundle: Bundle,
    network: Network,
    views: Mapping[str, GeneratorView[Any]],
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
