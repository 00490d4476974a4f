"""Corpus and vocabularies, or a model → PretrainedModel: the upstream side, learnt here or pretrained further."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config.training import SelectName
from subgraft.models.bundle import Bundle
from subgraft.objectives.mixture import MixedLoss, Mixture
from subgraft.objectives.objective import Objective, Request
from subgraft.objectives.table import objectives_of
from subgraft.recipes.pretrain import PretrainRecipe
from subgraft.stages.build import build
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import fit, is_writer, write_curve
from subgraft.stages.kept_weights import CURVE
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data
from subgraft.training.selection import SELECTIONS, Selection


def run(recipe: PretrainRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    corpus, smoothing = Corpus.open(inputs["corpus"], context.cache), recipe.training.label_smoothing
    bundle = _begun(recipe, inputs)
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
        select=_selection(recipe.training.select, judge),
    )
    if is_writer():
        bundle.save(out)
    return {**write_curve(outcome, out), "parameters": bundle.model.num_parameters(), "artifacts": [CURVE]}


def _begun(recipe: PretrainRecipe, inputs: Mapping[str, Path]) -> Bundle:
    """The model before its first step: built, or the one that is pretrained further."""
    if recipe.model is None:
        return Bundle.load(inputs["model"])
    return build(recipe.model, inputs["encoder"], inputs["decoder"], recipe.seed)


def _selection(given: SelectName | None, judge: Objective) -> Selection | None:
    """What decides which weights are kept: what is given, else what the objective goes by."""
    if given is not None:
        return SELECTIONS[given]
    return Selection(judge.select, least=judge.lowest) if judge.select else None
