"""The shared training of generators: one for each side's embeddings, on the objectives of pretraining."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.metadata import GeneratorOrigin, table_digest
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import GeneratorRecipe, NetworkRecipe
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.mixture import MixedLoss
from subgraft.training.objectives.objective import GeneratorView, Request
from subgraft.training.objectives.registry import objectives_of
from subgraft.training.schedule import Data
from subgraft.training.setup import fit, write_curve

G = TypeVar("G", bound=nn.Module)
Views = Mapping[str, GeneratorView[Any]]


@dataclass(frozen=True)
class Trained(Generic[G]):
    """By side: generators, their origins, and the summaries of their trainings."""

    generators: dict[SideName, G]
    origins: dict[SideName, GeneratorOrigin]
    summary: dict[str, Json]


def train_by_side(
    recipe: GeneratorRecipe | NetworkRecipe,
    bundle: Bundle,
    corpus: Corpus,
    out: Path,
    context: Context,
    *,
    group: str,
    max_similar: int,
    begin: Callable[[SideName, SideName], G],
    training: Callable[[G, SideName, Views], tuple[GeneratorLoss | MixedLoss, Data]],
) -> Trained[G]:
    """Train a generator for each side; a model with shared embeddings gets one for both.

    `begin` initialises one, for a side and the side whose embeddings it uses; `training` makes its loss and batches.
    """
    recipe = with_named_precision(recipe, bundle.model, context)
    request = Request(bundle, corpus, recipe.languages, recipe.training, recipe.seed)
    objectives = objectives_of(recipe.objectives, request)
    made: dict[SideName, G] = {}
    found: Trained[G] = Trained({}, {}, {})
    for name in recipe.sides:
        table = side_of(bundle.model, name).input.weight
        found.origins[name] = GeneratorOrigin(table_digest(table), bundle.tokenizers[name].fingerprint, max_similar)
        views = {kind: objective.view(name) for kind, objective in objectives.items()}
        (of_table,) = {view.side for view in views.values()}
        if of_table not in made:
            generator = made[of_table] = begin(name, of_table)
            loss, data = training(generator, name, views)
            outcome = fit(loss, loss.weights, data, recipe.training, context, group=group, seed=recipe.seed, part=name)
            found.summary[name] = write_curve(outcome, out, f"curve.{name}.json")
        found.generators[name] = made[of_table]
    return found
