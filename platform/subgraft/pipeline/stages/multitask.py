"""TransferredModel and Corpora → FinetunedModel: trained on several tasks at once, each with a head of its own."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.multitask import OWN
from subgraft.config.task_objectives import LabelledPairsSettings, LabelledSettings, TaskObjectiveSettings
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.recipes.training import MultitaskRecipe
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.objective import Request
from subgraft.training.progress import CURVE, SELECTIONS
from subgraft.training.setup import fit, is_writer, peak_memory, write_curve
from subgraft.training.understanding.multitask import HEADS, TasksAtOnce, save_heads, with_task_heads
from subgraft.training.understanding.objective import LabelledExamples


def run(recipe: MultitaskRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Train the model; the output is the model of the recipe's own task, with the other heads in a separate file."""
    bundle = Bundle.load(inputs["model"])
    recipe = with_named_precision(recipe, bundle.model, context)
    settings = recipe.training
    tasks = {name: _require_labelled(task_recipe.objective) for name, task_recipe in recipe.by_task.items()}
    corpora = {name: Corpus.open(inputs[recipe.corpus_of(name)], context.cache) for name in tasks}
    pairs = {name: (tasks[name], corpora[name]) for name in tasks}
    bundles = with_task_heads(bundle, pairs, recipe.seed, settings.max_length)
    examples = dict[str, LabelledExamples]()
    for name, task_recipe in recipe.by_task.items():
        request = Request(bundles[name], corpora[name], recipe.languages, task_recipe.training, recipe.seed)
        examples[name] = LabelledExamples(tasks[name], request, task_recipe.training)
    data = TasksAtOnce(examples)
    loss = data.loss(bundles)
    outcome = fit(
        loss,
        loss.weights,
        data,
        settings,
        context,
        group=recipe.group,
        seed=recipe.seed,
        evaluate=data.dev_scores(bundles),
        select=SELECTIONS[settings.select or "score"],
    )
    if is_writer():
        bundles[OWN].save(out)
        save_heads(bundles, out)
    dev_scores = next(point.values for point in outcome.curve if point.step == outcome.best_step)
    return {
        **write_curve(outcome, out),
        "dev": dev_scores,
        "examples": {name: len(labelled.lengths) for name, labelled in examples.items()},
        "cut_pairs": data.cut,
        "parameters": bundles[OWN].model.num_parameters(),
        "trained_parameters": outcome.trained_parameters,
        "peak_memory": peak_memory(),
        "artifacts": [CURVE, HEADS],
    }


def _require_labelled(objective: TaskObjectiveSettings) -> LabelledSettings | LabelledPairsSettings:
    assert isinstance(objective, LabelledSettings | LabelledPairsSettings)  # validation requires labels
    return objective
