"""Corpus and vocabularies, or a model → PretrainedModel: the upstream side, learnt here or pretrained further."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from subgraft.config.training import SelectName
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.further_heads import HEADS, write_heads_of_objectives
from subgraft.modeling.heads import left_to_right
from subgraft.modeling.next_sentence import with_next_sentence
from subgraft.pipeline.artifacts import SAVED_STEPS
from subgraft.pipeline.compute.models import build
from subgraft.pipeline.stages.training import PretrainStage
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.dev_scores import describe_dev_engine
from subgraft.training.objectives.compute.interface import HeldOut, Objective, ObjectiveInputs, ObjectiveLoss
from subgraft.training.objectives.compute.mixture import MixedLoss, objectives_of
from subgraft.training.objectives.compute.seq2seq import Seq2SeqObjective
from subgraft.training.objectives.compute.stages import in_stages, of_length
from subgraft.training.objectives.compute.target_sampling import SampledLoss, target_sampling
from subgraft.training.progress import CURVE, SELECTIONS, Selection
from subgraft.training.setup import held_out_mean, is_writer, run_training, write_curve
from subgraft.training.stage import Inputs, Summary
from subgraft.training.stream_memory import memory_of


def run(stage: PretrainStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    corpus, smoothing = Corpus.open(inputs["corpus"], context.cache), stage.training.label_smoothing
    bundle = _initial_model(stage, inputs)
    stage = with_named_precision(stage, bundle.model, context)
    further_corpora = {kind: Corpus.open(inputs[f"corpus/{kind}"], context.cache) for kind in stage.further_corpora}
    request = ObjectiveInputs(
        bundle,
        corpus,
        stage.languages,
        stage.training,
        stage.seed,
        stage.sampling,
        stage.language_exponent,
        further_corpora,
    )
    text = in_stages(stage.objectives, stage.training, request)
    losses = {kind: objective.loss(smoothing) for kind, objective in text.of_loss.items()}
    module: ObjectiveLoss = next(iter(losses.values())) if len(losses) == 1 else MixedLoss(bundle.model, losses)
    headed = {kind: loss.model for kind, loss in losses.items() if loss.has_own_head}
    dev_objective = next(
        (objective for objective in text.longest.values() if objective.select), next(iter(text.longest.values()))
    )
    sampling, evaluate = None, dev_objective.dev_scores()
    if stage.training.target_sampling is not None:
        sampling = target_sampling(stage.training.target_sampling, bundle.model, stage.seed)
        module, evaluate = SampledLoss(module), _dev_losses(stage, request)
    outcome = run_training(
        module,
        module.weights,
        text.data,
        stage.training,
        context,
        group="pretrain",
        seed=stage.seed,
        evaluate=evaluate,
        select=_selection(stage.training.select, dev_objective),
        callback=sampling or memory_of(text.of_loss),
        save=partial(_save_step, bundle, context.work / SAVED_STEPS),
    )
    if is_writer():
        bundle.save(out)
        if (saved := context.work / SAVED_STEPS).is_dir():
            shutil.copytree(saved, out / SAVED_STEPS)
        write_heads_of_objectives(bundle.model, headed, out)
    translated = any(objective.needs_pairs for objective in stage.objectives)
    engine = describe_dev_engine(stage.training, bundle.model) if translated else {}
    heads = [HEADS] if headed else []
    truncated = sum(each.truncated for each in text.longest.values() if isinstance(each, Seq2SeqObjective))
    if truncated:
        context.warn(f"{truncated:,} sentences are longer than pretrain.max_length or block_tokens, and were truncated")
    parameters = bundle.model.num_parameters()
    counts = {"cut_sentences": truncated} if truncated else {}
    return {**write_curve(outcome, out), **engine, **counts, "parameters": parameters, "artifacts": [CURVE, *heads]}


def _save_step(bundle: Bundle, folder: Path, step: int) -> None:
    """Save the weights of a step atomically. A training that resumes may save the same step again."""
    complete, partial_folder = folder / str(step), folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    bundle.save(partial_folder)
    shutil.rmtree(complete, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    partial_folder.rename(complete)


def _initial_model(stage: PretrainStage, inputs: Inputs) -> Bundle:
    """The model before its first step, built or loaded, in the form that its objectives need."""
    bundle = Bundle.load_to_train(inputs["model"]) if stage.model is None else build(stage.model, inputs, stage.seed)
    if stage.predicts_next:
        return replace(bundle, model=with_next_sentence(bundle.model, stage.seed))
    if any(objective.one_sided for objective in stage.objectives):
        return replace(bundle, model=left_to_right(bundle.model))
    return bundle


def _dev_losses(stage: PretrainStage, request: ObjectiveInputs) -> Callable[[], dict[str, float]] | None:
    """Each objective's loss per token of dev text over the complete vocabulary, if the corpus has dev text.

    With sampled targets, training losses are not comparable: they are over candidates only.
    """
    if "dev" not in request.corpus.splits:
        return None
    held_out = HeldOut(**vars(of_length(request, stage.training.longest)))
    objectives = objectives_of(stage.objectives, held_out)
    means = [
        held_out_mean(objective.loss(0.0), objective, stage.training, f"{kind}_loss")
        for kind, objective in objectives.items()
    ]
    return lambda: {name: value for mean in means for name, value in mean().items()}


def _selection(name: SelectName | None, dev_objective: Objective) -> Selection | None:
    """The criterion that selects the weights: the configured one, else the objective's default."""
    if name is not None:
        return SELECTIONS[name]
    if dev_objective.select is None:
        return None
    return Selection(dev_objective.select, lower_is_better=dev_objective.lower_is_better)
