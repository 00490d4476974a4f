"""Checks of the settings of documents. Each raises ValueError with the setting to change."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS


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
        raise ValueError("evaluation.documents: a search scores sentences: leave out either")
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
            raise ValueError(f"system {system.name}: documents does not go with {named[0]}: leave out either")


def _require_sentences_first(system: System, experiment: Comparison) -> None:
    """A system with context is finetuned like any other before, and reads sentences."""
    unsupported = ("documents", "unsupervised", "conditioning", "text", "embedding_warmup", "tie_to_sources")
    further = ("embeddings_only_fraction", "rare_tokens", "shuffled_sources", "source_encoder", "multitask")
    if named := [name for name in (*unsupported, *further) if getattr(system, name)]:
        raise ValueError(f"system {system.name}: context does not go with {named[0]}: leave out either")
    if system.finetuning(experiment.finetune).train != "all":
        raise ValueError(f"system {system.name}: context is trained with the model: it needs `train: all`")
