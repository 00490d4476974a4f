"""Model and translations in both directions → FinetunedModel: a round of on-the-fly back-translation.

Lample et al. (2018), section 3; Liu et al. (2020), section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from subgraft.config.objectives import TranslationSettings
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.recipes.training import UnsupervisedRecipe
from subgraft.pipeline.stages.finetune import Finetuning
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.dev_scores import describe_dev_engine
from subgraft.training.objectives.mixture import AuxiliaryText
from subgraft.training.objectives.objective import Request
from subgraft.training.objectives.translation import DevScores, TaskPairs
from subgraft.training.progress import CURVE
from subgraft.training.setup import is_writer, peak_memory, write_curve


class BothDirections(AuxiliaryText):
    """Made pairs of both directions, half of each batch; scored on the task's dev pairs, which nothing is learnt of."""

    def __init__(self, there: TaskPairs, back: TaskPairs, task: Request) -> None:
        super().__init__(there, back, 0.5)
        self._request = task

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        request = self._request
        return DevScores(bundle, list(request.corpus.pairs("dev")), request.languages, request.training)


def run(recipe: UnsupervisedRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle = Bundle.load(inputs["model"])
    recipe = with_named_precision(recipe, bundle.model, context)
    settings, languages = recipe.training, recipe.languages
    task = Request(bundle, Corpus.open(inputs["corpus"], context.cache), languages, settings, recipe.seed)

    def made(role: str, request: Request) -> TaskPairs:
        corpus = Corpus.open(inputs[role], context.cache)
        return TaskPairs(TranslationSettings(), replace(request, corpus=corpus), settings, counted=False)

    back = made("synthetic/reversed", replace(task, languages=languages.reversed))
    data = BothDirections(made("synthetic", task), back, task)
    outcome = Finetuning(recipe, data, context, None).train(bundle, settings, [])
    if is_writer():
        bundle.save(out)
    return {
        **write_curve(outcome, out),
        **describe_dev_engine(settings, bundle.model),
        "cut_pairs": data.cut + back.cut,
        "parameters": bundle.model.num_parameters(),
        "trained_parameters": outcome.trained_parameters,
        "peak_memory": peak_memory(),
        "artifacts": [CURVE],
    }
