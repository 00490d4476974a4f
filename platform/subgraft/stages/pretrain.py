"""Corpus and vocabularies → PretrainedModel: the upstream side, learnt here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.objectives.mixture import MixedLoss, Mixture
from subgraft.objectives.objective import Request
from subgraft.objectives.table import objectives_of
from subgraft.recipes.pretrain import PretrainRecipe
from subgraft.stages.build import build
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import CURVE, fit, is_writer, write_curve
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data


def run(recipe: PretrainRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    corpus, smoothing = Corpus.open(inputs["corpus"]), recipe.training.label_smoothing
    bundle = build(recipe.model, inputs["encoder"], inputs["decoder"], recipe.seed)
    request = Request(bundle, corpus, recipe.languages, recipe.training, recipe.seed, recipe.sampling)
    objectives = objectives_of(recipe.objectives, request)
    losses = {kind: objective.loss(smoothing) for kind, objective in objectives.items()}
    first, module, weights = next(iter(objectives.values())), next(iter(losses.values())), {"loss": 1.0}
    data: Data = first
    if len(objectives) > 1:
        data = Mixture(objectives, {each.kind: each.weight for each in recipe.objectives})
        module = MixedLoss(bundle.model, losses, weights)
        weights = module.weights
    judge = next((objective for objective in objectives.values() if objective.select), first)
    outcome = fit(
        module,
        weights,
        data,
        recipe.training,
        context,
        group="pretrain",
        seed=recipe.seed,
        evaluate=judge.dev_scores(),
        select=judge.select,
        lowest=judge.lowest,
    )
    if is_writer():
        bundle.save(out)
    return {**write_curve(outcome, out), "parameters": bundle.model.num_parameters(), "artifacts": [CURVE]}
