"""Checks of translation by other means than one model's pairs of sentences: several directions, documents, no pairs.

Each raises ValueError with the setting to change.
"""

from __future__ import annotations

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.systems import System
from subgraft.data.tasks.registry import TASKS, tasks_with
from subgraft.embeddings.methods.registry import method_spec


def require_directions(experiment: Comparison) -> None:
    """Directions are distinct and have corpora, the first is trained on, and a model knows which language to write."""
    directions = experiment.directions
    if not directions:
        if experiment.direction_exponent is not None:
            raise ValueError("direction_exponent draws directions, and there are none: give directions")
        if named := [system.name for system in experiment.systems if system.directions is not None]:
            raise ValueError(f"system {named[0]}: directions are some of the experiment's, which has none")
        return
    if not TASKS[experiment.task].two_languages:
        raise ValueError(
            f"directions are for `task: {' or '.join(tasks_with('two_languages'))}`, not for {experiment.task}"
        )
    names = [direction.name for direction in directions]
    if duplicates := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ValueError(f"directions: {duplicates[0]} is named twice: combine its corpora by `together`")
    for direction in directions:
        if direction.source == direction.target:
            raise ValueError(f"directions: {direction.name} reads and writes one language")
        if direction.corpus not in experiment.corpora:
            known = ", ".join(experiment.corpora)
            raise ValueError(f"directions: corpus '{direction.corpus}' of {direction.name} is not among {known}")
    first = directions[0]
    if (experiment.languages, experiment.downstream.corpus) != (first.languages, first.corpus):
        raise ValueError(f"leave out languages and downstream.corpus: they are those of {first.name}, the first one")
    if not first.train:
        raise ValueError(f"directions: the report evaluates the first, {first.name}, so it needs `train: true`")
    # A model that is built here writes several languages only if it marks them.
    targets = dict.fromkeys(direction.target for direction in experiment.directions)
    model = experiment.model
    if len(targets) > 1 and experiment.upstream.checkpoint is None and not model.needs_language_codes:
        raise ValueError(
            f"directions into {' and '.join(targets)}: a model of the family {model.family} has no language codes, so "
            "it cannot know which language to write: take model.family mbart or m2m_100, or one target"
        )
    for system in experiment.systems:
        _require_directions_of(system, experiment)
    if experiment.direction_exponent is not None and all(
        len(experiment.trained_on(system)) == 1 for system in experiment.systems
    ):
        raise ValueError("direction_exponent: no system is finetuned on several directions: leave it out")


def _require_directions_of(system: System, experiment: Comparison) -> None:
    where, names = f"system {system.name}", [direction.name for direction in experiment.directions]
    own = system.directions
    if own is not None and (unknown := [name for name in own if name not in names]):
        raise ValueError(f"{where}: directions has {unknown[0]}, which is not among {', '.join(names)}")
    if own is not None and (not own or len(set(own)) != len(own)):
        raise ValueError(f"{where}: directions must be distinct, and at least one")
    if [each.name for each in experiment.trained_on(system)] == names[:1]:
        return
    settings = {
        "text": system.text,
        "embedding_warmup": system.embedding_warmup,
        "source_encoder": system.source_encoder,
        f"initialiser: {system.initialiser}": method_spec(system.initialiser).learning,
    }
    if unsupported := [name for name, is_set in settings.items() if is_set]:
        raise ValueError(
            f"{where}: {unsupported[0]} is for one direction, the first: write `directions: [{names[0]}]` in the system"
        )


def require_documents_of_task(experiment: Comparison) -> None:
    """Documents are translated by all systems or scored alone, and are read whole."""
    evaluation = experiment.evaluation
    systems = [system for system in experiment.systems if system.documents or system.context]
    if not (systems or evaluation.documents):
        return
    where = "evaluation.documents"
    if systems:
        where = f"system {systems[0].name}: {'context' if systems[0].context else 'documents'}"
    if not TASKS[experiment.task].two_languages:
        raise ValueError(f"{where}: documents are translated, which is not `task: {experiment.task}`: leave it out")
    if experiment.directions:
        raise ValueError(f"{where}: documents are translated in one direction: leave out either this or directions")
    if not evaluation.documents:
        raise ValueError(
            f"{where}: blocks may have other numbers of sentences than their references, so all systems are scored by "
            "document: write `evaluation: {documents: true}`"
        )
    if systems and experiment.finetune.max_train_examples is not None:
        raise ValueError(f"{where}: documents are read whole: leave out finetune.max_train_examples")
    if evaluation.metrics:
        raise ValueError("evaluation.metrics are of sentences, and evaluation.documents scores documents: leave it out")
    if experiment.search is not None:
        raise ValueError("evaluation.documents: a search scores sentences: leave out one of them")
    for system in experiment.systems:
        if (system.documents or 0) > experiment.finetune.max_length:
            raise ValueError(
                f"system {system.name}: documents: blocks of {system.documents} tokens are longer than "
                f"finetune.max_length {experiment.finetune.max_length}"
            )
        unsupported = ("conditioning", "text", "embedding_warmup", "tie_to_sources")
        if system.context:
            _require_sentences_first(system, experiment)
        if system.documents and (named := [name for name in unsupported if getattr(system, name)]):
            raise ValueError(
                f"system {system.name}: documents cannot be combined with {named[0]}: leave out one of them"
            )


def _require_sentences_first(system: System, experiment: Comparison) -> None:
    """A system with context is first finetuned like any other, and reads sentences."""
    unsupported = ("documents", "unsupervised", "conditioning", "text", "embedding_warmup", "tie_to_sources")
    also_unsupported = ("embeddings_only_fraction", "rare_tokens", "shuffled_sources", "source_encoder", "multitask")
    if named := [name for name in (*unsupported, *also_unsupported) if getattr(system, name)]:
        raise ValueError(f"system {system.name}: context cannot be combined with {named[0]}: leave out one of them")
    if system.finetuning(experiment.finetune).train != "all":
        raise ValueError(f"system {system.name}: context is trained with the model: it needs `train: all`")


def require_unsupervised(experiment: Comparison) -> None:
    """Such systems need text of both languages, and a model that reads and writes both."""
    systems = [system for system in experiment.systems if system.unsupervised]
    if not systems:
        return
    where, text, upstream = f"system {systems[0].name}: unsupervised", experiment.downstream.text, experiment.upstream
    if not TASKS[experiment.task].two_languages:
        raise ValueError(f"{where} is for `task: {' or '.join(tasks_with('two_languages'))}`, not {experiment.task}")
    if text is None or not (text.source and text.target):
        raise ValueError(f"{where} learns from text of both languages: give downstream.text.source and .target")
    if upstream.checkpoint is None and not experiment.model.needs_language_codes:
        raise ValueError(
            f"{where} needs a model that writes both languages, by a code for each: model.family mbart, not "
            f"{experiment.model.family}"
        )
    for system in systems:
        mode = experiment.vocabulary_mode(system)
        if mode in ("replace", "trim") and not experiment.downstream.shared:
            raise ValueError(
                f"system {system.name}: unsupervised reads and writes both languages on each side: it needs "
                "downstream.shared: true, `vocabulary: upstream` or `vocabulary_mode: extend`"
            )
        if system.made_with_its_vocabulary:
            raise ValueError(
                f"system {system.name}: unsupervised needs a model that has learnt of both languages before, which "
                f"`pretraining: {system.pretraining}` is not"
            )
        experiment.unsupervised.training(system.finetuning(experiment.finetune))
