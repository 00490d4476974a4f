"""TransferredModel and Corpora → FinetunedModel: trained on several tasks at once, each with a head of its own."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.experiment.multitask import OWN
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.further_heads import HEADS
from subgraft.pipeline.stages.training import MultitaskStage
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.progress import CURVE, SELECTIONS
from subgraft.training.setup import fit, is_writer, peak_memory, write_curve
from subgraft.training.stage import Inputs, Summary
from subgraft.training.understanding.multitask import TasksAtOnce, save_heads, with_task_heads
from subgraft.training.understanding.objective import LabelledExamples


def run(stage: MultitaskStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Train the model; the output is the model of the stage's own task, with the other heads in a separate file."""
    bundle = Bundle.load_to_train(inputs["model"])
    stage = with_named_precision(stage, bundle.model, context)
    settings = stage.training
    tasks = {name: _require_labelled(task_stage.objective) for name, task_stage in stage.by_task.items()}
    corpora = {name: Corpus.open(inputs[stage.corpus_of(name)], context.cache) for name in tasks}
    pairs = {name: (tasks[name], corpora[name]) for name in tasks}
    bundles = with_task_heads(bundle, pairs, stage.seed, settings.max_length)
    examples = dict[str, LabelledExamples]()
    for name, task_stage in stage.by_task.items():
        request = ObjectiveInputs(bundles[name], corpora[name], stage.languages, task_stage.training, stage.seed)
        examples[name] = LabelledExamples(tasks[name], request, task_stage.training)
    data = TasksAtOnce(examples)
    loss = data.loss(bundles)
    outcome = fit(
        loss,
        loss.weights,
        data,
        settings,
        context,
        group=stage.group,
        seed=stage.seed,
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
