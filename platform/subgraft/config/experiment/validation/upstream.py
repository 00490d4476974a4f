"""Checks of pretraining and its model. Each raises ValueError with the setting to change."""

from __future__ import annotations

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.models import families_for
from subgraft.config.settings_base import SENTENCEPIECE_KINDS
from subgraft.config.vocabularies import VocabularySettings


def require_upstream_text(experiment: Comparison) -> None:
    """Without an upstream corpus there must be a checkpoint, and no step that reads upstream text."""
    if experiment.upstream.corpus is not None:
        return
    if experiment.upstream.checkpoint is None:
        raise ValueError("upstream needs a corpus to pretrain a model on, or a checkpoint")
    generators = [
        f"the generator of system {system.name}"
        for system in experiment.systems
        if experiment.trains(system) and not experiment.finetuned_on.continues_text  # it is upstream text too
    ]
    continued = ["upstream.continue_pretraining"] if experiment.upstream.continue_pretraining else []
    translated = ["evaluation.upstream_sentences"] if experiment.evaluation.upstream_sentences is not None else []
    if dependents := [*generators, *continued, *translated]:
        raise ValueError(f"{', '.join(dependents)} need upstream.corpus: give it, or leave these out")


def require_pretraining(experiment: Comparison) -> None:
    """Systems with another pretraining than plain need one that is done here, with a suitable vocabulary."""
    others = [system.name for system in experiment.systems if system.pretraining != "plain"]
    if experiment.upstream.checkpoint is not None and others:
        raise ValueError(
            "upstream.checkpoint is a pretrained model, and these systems need a pretraining of their own: "
            f"{', '.join(others)}; leave out one of them"
        )
    if experiment.upstream.continue_pretraining and experiment.upstream.checkpoint is None:
        raise ValueError("upstream.continue_pretraining needs upstream.checkpoint, which is missing")
    if experiment.pretrain.select not in (None, "last") and not any(
        each.needs_dev for each in experiment.upstream.objectives
    ):
        raise ValueError(
            f"pretrain.select {experiment.pretrain.select} needs dev scores, which pretraining has only if translation "
            "is among upstream.objectives"
        )
    one_sided = [each.kind for each in experiment.upstream.objectives if each.one_sided]
    if one_sided and len(experiment.upstream.objectives) > 1:
        raise ValueError(f"upstream.objectives: {one_sided[0]} hides later tokens in the model, so it must be alone")
    if experiment.pretrain.batch_size_schedule and any(each.ordered for each in experiment.upstream.objectives):
        raise ValueError("pretrain.batch_size_schedule: memory_tokens need batches of one size: leave out one of them")
    sampled = any(system.pretraining == "sampled" for system in experiment.systems)
    if sampled and experiment.upstream.vocabulary.kind not in SENTENCEPIECE_KINDS:
        raise ValueError("`pretraining: sampled` needs an upstream vocabulary of kind unigram or bpe")
    for objective in experiment.upstream.objectives if sampled else ():
        if not objective.samples:
            raise ValueError(f"`pretraining: sampled` does not work with the objective {objective.kind}")
        if objective.sampled_as not in (None, *experiment.upstream.sampling.sides):
            raise ValueError(
                f"text of the objective {objective.kind} counts as the {objective.sampled_as}'s: "
                "upstream.sampling.sides must name it"
            )


def require_saved_weights(experiment: Comparison) -> None:
    """Systems that start from weights of an earlier step need a pretraining that saves them."""
    pretrain, every = experiment.pretrain, experiment.pretrain.save_every
    for system in experiment.systems:
        step = system.pretraining_step
        if step is None:
            continue
        where = f"system {system.name}: pretraining_step {step}"
        if system.pretraining != "plain" or not experiment.pretrains:
            raise ValueError(
                f"{where} applies to the pretraining that all systems share, which this system does not use"
            )
        if every is None or step % every:
            saved = "are not saved: write pretrain.save_every" if every is None else f"are saved every {every} updates"
            raise ValueError(f"{where}: weights {saved}")
        if step >= (pretrain.max_steps or step + 1):
            raise ValueError(f"{where}: the pretraining ends after {pretrain.max_steps} updates: leave it out")


def require_samplable_targets(experiment: Comparison) -> None:
    if experiment.pretrain.target_sampling is None:
        return
    for objective in experiment.upstream.objectives:
        if not objective.samples_targets:
            raise ValueError(
                f"pretrain.target_sampling is for the objectives masked and denoising, not for {objective.kind}"
            )
        if objective.ordered:
            raise ValueError(f"pretrain.target_sampling: {objective.kind} has memory_tokens: leave out one of them")


def require_corpora_of_objectives(experiment: Comparison) -> None:
    """The corpora that single objectives name must exist."""
    for index, objective in enumerate(experiment.upstream.objectives):
        if objective.own_corpus not in (None, *experiment.corpora):
            raise ValueError(
                f"upstream.objectives.{index}.corpus '{objective.own_corpus}' is not among corpora: "
                f"{', '.join(experiment.corpora)}"
            )


def require_tokens(experiment: Comparison) -> None:
    """Some objective must predict tokens, and a model with embeddings of objectives needs one for each."""
    objectives = experiment.upstream.objectives
    if not any(objective.predicts_tokens for objective in objectives):
        raise ValueError(
            f"upstream.objectives: {objectives[0].kind} predicts no tokens, and the model's head does: add "
            "`{kind: masked}`, or another objective that predicts them"
        )
    if not objectives[0].predicts_tokens:
        raise ValueError(
            f"upstream.objectives: write {objectives[0].kind} after an objective that predicts tokens, such as masked: "
            "finetuning reads the embedding of the first objective"
        )
    model = experiment.model
    if experiment.upstream.checkpoint is None and 0 < model.objective_embeddings < len(objectives):
        raise ValueError(
            f"model.task_embeddings {model.objective_embeddings} is less than the {len(objectives)} upstream.objectives"
        )


def require_stages(experiment: Comparison) -> None:
    """Objectives and their stages must begin before the end of the training, and something must at its start."""
    objectives, pretrain = experiment.upstream.objectives, experiment.pretrain
    if pretrain.schedule_per_objective and len(objectives) == 1:
        raise ValueError("pretrain.schedule_per_objective needs several upstream.objectives: leave it out")
    if all(objective.from_step for objective in objectives):
        raise ValueError("upstream.objectives: one of them must begin at once, with `from_step: 0`")
    for index, objective in enumerate(objectives):
        where, last = f"upstream.objectives.{index} ({objective.kind})", objective.last_change
        if last and (pretrain.max_steps is None or pretrain.epochs is not None):
            raise ValueError(
                f"{where} changes at step {last}: write pretrain.max_steps and `epochs: null`, so that the training is "
                "known to reach it"
            )
        if last >= (pretrain.max_steps or last + 1):
            raise ValueError(
                f"{where} changes at step {last}, and the pretraining ends after {pretrain.max_steps} updates: raise "
                "pretrain.max_steps, or let it change earlier"
            )
        if last > objective.from_step and pretrain.target_sampling is not None:
            raise ValueError(
                f"{where} has stages, which pretrain.target_sampling cannot look ahead to: leave out one of them"
            )


def require_one_head(experiment: Comparison) -> None:
    heads = sorted({objective.head for objective in experiment.upstream.objectives})
    if len(heads) > 1 and experiment.runtime.zero_stage == 3:
        raise ValueError(
            f"upstream.objectives train heads of their own ({', '.join(heads)}), which runtime.zero_stage 3 would "
            "update in every step, used or not: use 2"
        )


def require_fitting_blocks(experiment: Comparison) -> None:
    longest = max(experiment.pretrain.longest, experiment.generator_training.max_length)
    for index, objective in enumerate(experiment.upstream.objectives):
        if (objective.longest_block or 0) > longest:
            raise ValueError(
                f"upstream.objectives.{index}.block_tokens {objective.longest_block} is beyond the {longest} of "
                "pretrain.max_length and generator_training.max_length"
            )


def require_trainable_model(experiment: Comparison) -> None:
    """A model pretrained here must support its objectives, vocabularies, sides and lengths."""
    _require_entities(experiment)
    if experiment.upstream.checkpoint is not None:
        return
    family, kinds = experiment.model.family, experiment.model.vocabulary_kinds
    for objective in experiment.upstream.objectives:
        if objective.kind not in experiment.model.objectives:
            families = " or ".join(families_for(objective.kind))
            raise ValueError(f"the objective {objective.kind} needs model.family {families}, not {family}")
        if objective.recurrent and not experiment.model.recurrent:
            raise ValueError(
                f"upstream.objectives: memory_tokens of {objective.kind} needs model.family branched, not {family}"
            )
        if objective.predicts_next and not experiment.model.predicts_next:
            raise ValueError(
                "next sentences need model.family bert, ernie or knowledgeable, without embedding_width: write "
                "`next_sentence: false` in upstream.objectives"
            )
    pretrainings = {system.pretraining for system in experiment.systems}
    vocabularies: dict[str, VocabularySettings] = {"upstream.vocabulary": experiment.upstream.vocabulary}
    if "downstream-vocabulary" in pretrainings:
        vocabularies["downstream.vocabulary"] = experiment.downstream.vocabulary
    if "joint-vocabulary" in pretrainings:
        vocabularies["joint_vocabulary"] = experiment.joint_vocabulary
    for where, vocabulary in vocabularies.items():
        if vocabulary.kind not in kinds:
            raise ValueError(f"model.family {family} needs {where}.kind {' or '.join(kinds)}, not {vocabulary.kind}")
    if missing := [side for side in experiment.sides if side not in experiment.model.sides]:
        raise ValueError(f"sides: a model of the family {family} has no {missing[0]}")
    if experiment.model.one_table and not experiment.downstream.shared:
        raise ValueError(f"model.family {family} has one table for both sides: it needs downstream.shared: true")
    longest = max(experiment.pretrain.longest, experiment.longest_after_pretraining)
    if longest > experiment.model.max_positions:
        raise ValueError(f"a max_length of {longest} is beyond model.max_positions {experiment.model.max_positions}")


def _require_entities(experiment: Comparison) -> None:
    """Exactly the models that are built and read entities need embeddings of entities, of their width."""
    entities, model, built = experiment.upstream.entities, experiment.model, experiment.upstream.checkpoint is None
    if entities is None:
        if built and model.width_of_entities:
            raise ValueError(f"model.family {model.family} reads entities: give upstream.entities: {{triples: FILE}}")
        return
    if not built:
        raise ValueError("upstream.entities is for a new model: a checkpoint has its own entities")
    if model.width_of_entities is None:
        raise ValueError(f"upstream.entities needs model.family knowledgeable, not {model.family}")
    if entities.width not in (None, model.width_of_entities):
        raise ValueError(
            f"upstream.entities.transe.dimensions {entities.width} is not model.entity_width {model.width_of_entities}"
        )


def require_source_encoders(experiment: Comparison) -> None:
    """Systems with a source encoder need a task of pairs, and a model that takes one."""
    systems = [system.name for system in experiment.systems if system.source_encoder is not None]
    if not systems:
        return
    where, task = f"system {systems[0]}: source_encoder", experiment.finetuned_on
    if not task.translates:
        raise ValueError(f"{where} reads the sources of a task that writes targets, which {experiment.task} is not")
    if experiment.finetune.train != "all" or experiment.finetune.freezes_embeddings:
        raise ValueError(f"{where} needs `finetune.train: all`, with embeddings that are trained")
    if experiment.upstream.checkpoint is None and not experiment.model.takes_source_encoder:
        raise ValueError(f"{where} needs model.family bart, not {experiment.model.family}")
