"""Checks between the settings of an experiment. Each raises ValueError with the setting to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.search import require_searchable
from subgraft.config.experiment.systems import System, require_trained_parameters
from subgraft.config.experiment.validation.conditioning import require_conditioned_systems
from subgraft.config.experiment.validation.labels import require_settings_of_labels, require_tasks_at_once
from subgraft.config.experiment.validation.translation import (
    require_directions,
    require_documents_of_task,
    require_unsupervised,
)
from subgraft.config.experiment.validation.upstream import (
    require_corpora_of_objectives,
    require_fitting_blocks,
    require_one_head,
    require_pretraining,
    require_samplable_targets,
    require_saved_weights,
    require_source_encoders,
    require_stages,
    require_tokens,
    require_trainable_model,
    require_upstream_text,
)
from subgraft.config.models import families_for, is_decoder_alone
from subgraft.config.synthetic import TextUse
from subgraft.config.training import ROWS_IN_PARTS
from subgraft.data.tasks.registry import TASKS, tasks_with
from subgraft.embeddings.methods.registry import method_spec, names_with
from subgraft.training.objectives.conversations import ChatSettings
from subgraft.training.objectives.registry import task_objective

# Rules between the settings of new embeddings and the rest of an experiment.


def require_width_of_table(experiment: Comparison) -> None:
    """Static embeddings must be as wide as the model's; a checkpoint's width is only known once it is loaded."""
    width = experiment.static_embeddings.dimensions
    unmapped = [system.name for system in experiment.systems if method_spec(system.initialiser).unmapped]
    if unmapped and experiment.upstream.checkpoint is None and width not in (None, experiment.model.width_of_rows):
        raise ValueError(
            f"system {unmapped[0]} takes static embeddings as they are: static_embeddings.dimensions is {width}, "
            f"the model's embeddings have {experiment.model.width_of_rows}"
        )


def require_trainable_network(experiment: Comparison) -> None:
    named = [system.name for system in experiment.systems if system.trains_network and experiment.trains(system)]
    if named and experiment.network_training is None:
        raise ValueError(f"system {named[0]} needs network_training: the training of its network")


def require_learnable_rows(experiment: Comparison) -> None:
    """Learnt embeddings need the settings of their training, and sides that it supports."""
    for method in experiment.learned:
        stage = experiment.learning_stage(method)
        if stage.decoder_alone and experiment.sides != ("decoder",):
            raise ValueError(f"{method.name} learns what a decoder predicts: its systems need `sides: [decoder]`")
        stage.require(translates=experiment.upstream.translates)


def require_layer(experiment: Comparison) -> None:
    """The layer must exist; a checkpoint's depth is only known once it is loaded."""
    depth = min(experiment.model.depth(side) for side in experiment.sides)
    if experiment.upstream.checkpoint is None:
        for name, layer in experiment.distilled_layers.items():
            if layer > depth:
                raise ValueError(f"{name} {layer} is beyond the {depth} layers of a side")


# Rules for systems that read domain text in addition to pairs. Each check raises ValueError.


def require_text_to_read(experiment: Comparison) -> None:
    """Systems that read the domain's text need text of a side that they can use."""
    if experiment.embedding_warmup_training is None and any(system.embedding_warmup for system in experiment.systems):
        raise ValueError("systems with embedding_warmup need embedding_warmup_training")
    if any(system.text for system in experiment.systems):
        experiment.finetune.require_share_of_batch()
    text, continues = experiment.downstream.text, task_objective(experiment.task).continues
    for system, where, use in _readings(experiment):
        if text is None:
            raise ValueError(f"{where} reads the domain's text, and there is none: give downstream.text")
        if continues != (use == "lines"):
            reason = "continues text, so it can read `lines`" if continues else "has pairs, so it cannot read `lines`"
            raise ValueError(f"{where} does not go with {experiment.task}, which {reason}")
        if use == "back-translated":
            _require_reverse_model(experiment, where)
        if use == "denoised" and not any(each.denoises for each in experiment.upstream.objectives):
            raise ValueError(f"{where} needs a model pretrained on denoising: upstream.objectives has no denoising")
        if use == "back-translated" and experiment.rounds(system) > 1 and not text.source:
            raise ValueError(
                f"{where} has {experiment.rounds(system)} rounds, which translate text of both languages: give "
                "downstream.text.source"
            )
        if not continues and not text.target:
            raise ValueError(
                f"{where} reads text in the target language, and downstream.text has only source text: give "
                "downstream.text.target"
            )


def _require_reverse_model(experiment: Comparison, where: str) -> None:
    """A reverse model must be configured, or trainable here."""
    upstream = experiment.upstream
    if experiment.back_translation.model is None and upstream.checkpoint is not None and upstream.translates:
        raise ValueError(
            f"{where} needs a model of the reverse direction, and the checkpoint translates only forwards: give "
            "back_translation: {model: …}"
        )


def _readings(experiment: Comparison) -> Iterator[tuple[System, str, TextUse]]:
    """The uses of text by systems, each with its system and the setting that requests it."""
    for system in experiment.systems:
        for name, use in (("text", system.text), ("embedding_warmup", system.embedding_warmup)):
            if use is not None:
                yield system, f"system {system.name}: {name}: {use}", use


# Settings of a finetuning that name its steps.
_BY_STEP = ("evaluate_at", "batch_size_schedule", "dropout_schedule", "stop_after")


def require_distinct_names(experiment: Comparison) -> None:
    corpora = {"upstream": experiment.upstream.corpus}
    if not experiment.directions:  # which give the task's, and are checked below
        corpora["downstream"] = experiment.downstream.corpus
    for where, corpus in corpora.items():
        if corpus is not None and corpus not in experiment.corpora:
            raise ValueError(f"{where}.corpus '{corpus}' is not among corpora: {', '.join(experiment.corpora)}")
    lists = {
        "system names": [system.name for system in experiment.systems],
        "seeds": experiment.seeds,
        "sides": experiment.sides,
    }
    for what, values in lists.items():
        if len(set(values)) != len(values):
            raise ValueError(f"{what} must be distinct")


def require_corpus_of_task(experiment: Comparison) -> None:
    questions = {name for name, source in experiment.corpora.items() if source.kind.of_questions}
    if experiment.upstream.corpus in questions:
        raise ValueError("squad contains a task's questions: it cannot be the upstream corpus")
    corpus, task = experiment.downstream.corpus, TASKS[experiment.task]
    if task.of_questions and corpus not in questions:
        raise ValueError(f"{experiment.task} needs a downstream corpus of kind squad, which '{corpus}' is not")
    if corpus in questions and not task.of_questions:
        about = " or ".join(f"`task: {name}`" for name in tasks_with("of_questions"))
        raise ValueError(f"corpus '{corpus}' is of kind squad, which is for {about}")
    if task.two_languages and experiment.languages.source == experiment.languages.target:
        raise ValueError(f"{experiment.task} is between two languages: for one language, write `task: text-to-text`")


def require_text_of_task(experiment: Comparison) -> None:
    text = experiment.downstream.text
    if text is None:
        return
    learnt = task_objective(experiment.task)
    if text.target and learnt.continues and not learnt.needs_pairs:
        raise ValueError(
            f"downstream.text.target: {experiment.task} has one text, the source: give downstream.text.source"
        )
    for side in text.sides:
        if experiment.downstream.corpus in getattr(text, side):
            raise ValueError(
                f"downstream.text.{side} names '{experiment.downstream.corpus}', the task's own corpus, which is read "
                "anyway: name other text"
            )


def require_settings_of_chat(experiment: Comparison) -> None:
    """Only `task: chat` has conversations to learn, and it reads no other text."""
    if experiment.finetuned_on.kind != "chat":
        if experiment.chat != ChatSettings():
            raise ValueError("chat: these settings only apply to `task: chat`")
        return
    with_text = [
        name for name in ("text", "embedding_warmup") if any(getattr(system, name) for system in experiment.systems)
    ]
    if with_text:
        raise ValueError(f"systems with {with_text[0]}: chat is learnt of conversations, not of mere lines")


def require_model_of_task(experiment: Comparison) -> None:
    """Continuing text needs a decoder-only model, and all other tasks but those with labels need an encoder."""
    objectives = experiment.upstream.objectives
    kinds = [objective.kind for objective in objectives]
    if experiment.finetuned_on.understands:
        return
    if task_objective(experiment.task).continues:
        _require_continuable(experiment, kinds)
    elif any(objective.continues for objective in objectives):
        continues = all(objective.continues for objective in objectives)
        alternative = (
            "continues text, which is `task: continuation`" if continues else "is finetuned on tasks with labels"
        )
        raise ValueError(
            f"{experiment.task} needs an encoder-decoder, which a model of the objective {' or '.join(kinds)} is not; "
            f"such a model {alternative}"
        )
    elif experiment.upstream.checkpoint is None and not experiment.model.assembles:
        raise ValueError(
            f"{experiment.task} generates text, which a model of the family {experiment.model.family} cannot: take "
            "another family, or a task with labels"
        )


def _require_continuable(experiment: Comparison, kinds: Sequence[str]) -> None:
    task, decoders = experiment.task, [name for name in families_for("causal") if is_decoder_alone(name)]
    others = [kind for kind, each in zip(kinds, experiment.upstream.objectives, strict=True) if not each.continues]
    if not others and experiment.upstream.checkpoint is None and experiment.model.sides != ("decoder",):
        others = [experiment.model.family]
    if others:
        raise ValueError(
            f"{task} is for decoders alone: write upstream.objectives: [{{kind: causal}}] and model.family "
            f"{' or '.join(decoders)}, not {', '.join(others)}"
        )
    if experiment.languages.source != experiment.languages.target and not task_objective(task).needs_pairs:
        raise ValueError(f"{task} reads text in one language: source and target must be the same")
    if experiment.sides != ("decoder",):
        raise ValueError(f"{task} is for decoders alone: write `sides: [decoder]`")
    scores = {"bleu": "BLEU", "chrf": "chrF"}
    if (select := experiment.finetune.select or "") in scores:
        raise ValueError(f"finetune.select {select}: {task} has no {scores[select]}: write likelihood, or last")
    for name in ("calibration", "by_token_count"):
        if getattr(experiment.evaluation, name):
            raise ValueError(f"evaluation.{name} applies to outputs for a source, which {task} does not have")
    if experiment.evaluation.metrics:
        raise ValueError(f"evaluation.metrics compare outputs with references, which {task} does not have")
    if experiment.search is not None and set(experiment.search.objectives) != {"dev_bits_per_character"}:
        raise ValueError(f"search.objectives: a search of {task} measures only dev_bits_per_character")
    learnt = [system.name for system in experiment.systems if method_spec(system.initialiser).learning]
    if learnt and not task_objective(task).continues_text:
        raise ValueError(f"system {learnt[0]} learns its rows on pairs, which {task} does not have")


def require_changing_tables(experiment: Comparison) -> None:
    by_step = [name for name in _BY_STEP if getattr(experiment.finetune, name)]
    if by_step and (staged := [system.name for system in experiment.systems if system.embeddings_only_fraction]):
        raise ValueError(
            f"system {staged[0]}: embeddings_only_fraction splits finetuning, so finetune.{by_step[0]} does not apply"
        )
    for system in experiment.systems:
        require_trained_parameters(system, experiment.finetune)


def require_both_sides_to_share(experiment: Comparison) -> None:
    if experiment.downstream.shared and len(experiment.sides) == 1:
        raise ValueError("downstream.shared: a vocabulary for both sides needs `sides: [encoder, decoder]`")
    separate_vocabularies = experiment.upstream.checkpoint is None and not experiment.model.one_vocabulary
    for system in experiment.systems if experiment.downstream.shared and separate_vocabularies else ():
        if (mode := experiment.vocabulary_mode(system)) in ("extend", "trim"):
            raise ValueError(
                f"system {system.name}: {mode} changes the upstream vocabularies, and each side has its own here: "
                "leave out downstream.shared"
            )


def require_whole_models(experiment: Comparison) -> None:
    """Embeddings that are computed in each step, adapters that are merged, and heads in turn need complete tensors."""
    if experiment.runtime.zero_stage != 3:
        return
    for system in experiment.systems:
        train = system.finetuning(experiment.finetune).train
        settings = {
            "tie_to_sources": system.tie_to_sources,
            "embedding_warmup": system.embedding_warmup,
            "multitask": system.multitask,
            f"train: {train}": train in ("new-rows", "adapters"),
        }
        if unsupported := [name for name, is_set in settings.items() if is_set]:
            raise ValueError(
                f"system {system.name} has {unsupported[0]}, which runtime.zero_stage 3 cannot train: use 2"
            )


def require_whole_tables(experiment: Comparison) -> None:
    finetunings = [system.finetuning(experiment.finetune) for system in experiment.systems]
    if experiment.runtime.zero_stage is not None and any(
        each.rare_tokens or each.new_embedding_learning_rate for each in finetunings
    ):
        raise ValueError(ROWS_IN_PARTS)


def require_new_tokens(experiment: Comparison) -> None:
    """A vocabulary trimmed by `downstream` has no new tokens; `System` checks its own vocabulary_mode."""
    if experiment.downstream.vocabulary.mode != "trim":
        return
    for system in experiment.systems:
        if system.initialiser is not None and experiment.vocabulary_mode(system) == "trim":
            raise ValueError(
                f"system {system.name}: downstream.vocabulary.mode trim leaves no new tokens for its initialiser: "
                "write `vocabulary_mode: trim` in place of the initialiser, or give the system another vocabulary_mode"
            )


def require_search(experiment: Comparison) -> None:
    if experiment.search is not None:
        require_searchable(experiment.search, experiment.systems, experiment.finetune)


def require_measurable(experiment: Comparison) -> None:
    """Additional evaluations need a model or systems that they apply to."""
    if experiment.evaluation.upstream_sentences is not None and not (
        experiment.upstream.translates or experiment.finetuned_on.on_plain_text(experiment.upstream.objectives)
    ):
        raise ValueError(
            "evaluation.upstream_sentences translates the upstream corpus: a model that was pretrained otherwise "
            "cannot translate before it is finetuned, so translation must be among upstream.objectives"
        )
    if experiment.evaluation.engine == "llamacpp":
        if not experiment.finetuned_on.continues or experiment.finetuned_on.source:
            what = f"continues text, as in `task: continuation` and `task: chat`, and does not do {experiment.task}"
            raise ValueError(f"evaluation.engine llamacpp {what}: leave it out")
        if experiment.evaluation.beam > 1:
            raise ValueError("evaluation.engine llamacpp has no beam search: write `beam: 1` too")
    learnt = names_with("learning")
    if experiment.intrinsic is not None and all(system.initialiser in {None, *learnt} for system in experiment.systems):
        raise ValueError(
            f"intrinsic measures systems with an initialiser other than {', '.join(learnt)}: there is none"
        )


def require_known_baseline(experiment: Comparison) -> None:
    names, baseline = [system.name for system in experiment.systems], experiment.evaluation.baseline
    if baseline is not None and baseline not in names:
        raise ValueError(f"evaluation.baseline: no system is called {baseline}; systems: {', '.join(names)}")


# In the order in which mistakes are reported.
CHECKS = (
    require_distinct_names,
    require_known_baseline,
    require_directions,
    require_upstream_text,
    require_corpus_of_task,
    require_text_of_task,
    require_settings_of_chat,
    require_settings_of_labels,
    require_tasks_at_once,
    require_model_of_task,
    require_conditioned_systems,
    require_documents_of_task,
    require_changing_tables,
    require_both_sides_to_share,
    require_new_tokens,
    require_whole_models,
    require_whole_tables,
    require_search,
    require_pretraining,
    require_saved_weights,
    require_samplable_targets,
    require_stages,
    require_tokens,
    require_corpora_of_objectives,
    require_one_head,
    require_fitting_blocks,
    require_measurable,
    require_width_of_table,
    require_source_encoders,
    require_trainable_model,
    require_trainable_network,
    require_learnable_rows,
    require_layer,
    require_text_to_read,
    require_unsupervised,
)
