"""All objectives by their kind in `config.objectives`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.task_objectives import TaskObjectiveSettings
from subgraft.config.training import FinetuneSettings
from subgraft.training.objectives.compute.causal import TaskLines
from subgraft.training.objectives.compute.conditioned import TaskSourcedLines
from subgraft.training.objectives.compute.context_translation import TaskInContext
from subgraft.training.objectives.compute.conversations import ConversationsOfTask
from subgraft.training.objectives.compute.denoising import DenoisedLines, denoise
from subgraft.training.objectives.compute.dialogue import DialogueObjective
from subgraft.training.objectives.compute.directions import Directions
from subgraft.training.objectives.compute.document_translation import TaskDocuments
from subgraft.training.objectives.compute.interface import Objective, Request, TaskText, TrainedText
from subgraft.training.objectives.compute.knowledge_text import KnowledgeTextObjective
from subgraft.training.objectives.compute.label_objective import TaskObjective
from subgraft.training.objectives.compute.label_tasks import SOURCES
from subgraft.training.objectives.compute.left_to_right import LeftToRightObjective
from subgraft.training.objectives.compute.masked import train_next_sentence
from subgraft.training.objectives.compute.masked_entities import MaskedEntitiesObjective
from subgraft.training.objectives.compute.masked_seq2seq import mask_spans
from subgraft.training.objectives.compute.mixture import AuxiliaryText, ReplacementText
from subgraft.training.objectives.compute.multitask_masked import MultitaskMaskedObjective
from subgraft.training.objectives.compute.permutation import permute
from subgraft.training.objectives.compute.recurrence import causal, masked
from subgraft.training.objectives.compute.translation import TaskPairs, TranslationObjective
from subgraft.training.understanding.objective import LabelledExamples


def _unsupported(settings: Any, *_: Any) -> Any:
    raise ValueError(f"the objective {settings.kind} has no such use")


@dataclass(frozen=True)
class Uses:
    """The trainings that an objective supports.

    Attributes:
        pretraining: the pretraining of a model, and the training of generators for it.
        finetuning: finetuning on a task's text.
        additional: finetuning on text of another corpus, in addition to the task's text or in its place. Its examples
            must suit the task's loss.
    """

    pretraining: Callable[[Any, Request], Objective] = _unsupported
    finetuning: Callable[[Any, Request, FinetuneSettings], TaskText] = _unsupported
    additional: Callable[[Any, Request, FinetuneSettings], TrainedText] = _unsupported


OBJECTIVES: Mapping[str, Uses] = {
    "translation": Uses(TranslationObjective, TaskPairs, partial(TaskPairs, limited=False)),
    "document-translation": Uses(finetuning=TaskDocuments),
    "context-translation": Uses(finetuning=TaskInContext),
    "denoising": Uses(denoise, additional=DenoisedLines),
    "masked": Uses(masked),
    "left-to-right": Uses(LeftToRightObjective),
    "knowledge-text": Uses(KnowledgeTextObjective.of),
    "masked-entities": Uses(MaskedEntitiesObjective.of),
    "multitask-masked": Uses(MultitaskMaskedObjective.of),
    "masked-seq2seq": Uses(mask_spans),
    "permutation": Uses(permute),
    "causal": Uses(causal, TaskLines, partial(TaskLines, limited=False)),
    "conditioned": Uses(finetuning=TaskSourcedLines),
    "conditioned-on-text": Uses(finetuning=TaskSourcedLines),
    "conditioned-on-features": Uses(finetuning=TaskSourcedLines),
    "chat": Uses(finetuning=ConversationsOfTask),
    "dialogue": Uses(DialogueObjective),
    **dict.fromkeys(SOURCES, Uses(TaskObjective)),
    "labelled": Uses(finetuning=LabelledExamples),
    "labelled-pairs": Uses(finetuning=LabelledExamples),
}


def objectives_of(
    settings: Sequence[ObjectiveSettings], request: Request, *, of_tokens: bool = False
) -> dict[str, Objective]:
    """The configured objectives on one model and its text, by kind. of_tokens: only those that predict tokens."""
    objectives: dict[str, Objective] = {
        each.kind: OBJECTIVES[each.kind].pretraining(each, replace(request, task=task))
        for task, each in enumerate(settings)
        if each.predicts_tokens or not of_tokens
    }
    if any(each.predicts_next for each in settings):  # other objectives may have frozen the head
        train_next_sentence(request.bundle.model, predicts_next=True)
    return objectives


def task_text(settings: TaskObjectiveSettings, request: Request, training: FinetuneSettings) -> TaskText:
    """The text of a task with this objective."""
    return OBJECTIVES[settings.kind].finetuning(settings, request, training)


def directions_text(
    settings: TaskObjectiveSettings, requests: Mapping[str, Request], training: FinetuneSettings, exponent: float | None
) -> TaskText:
    """The text of a task with several directions, by name; for one direction, the text of that direction."""
    parts = {name: task_text(settings, request, training) for name, request in requests.items()}
    if len(parts) == 1:
        return next(iter(parts.values()))
    pairs = {name: part for name, part in parts.items() if isinstance(part, TaskPairs)}
    return Directions(pairs, exponent, next(iter(requests.values())).seed)


def with_text(
    task: TaskText, objective: TaskObjectiveSettings, request: Request, training: FinetuneSettings
) -> AuxiliaryText | ReplacementText:
    """A task's text and that of the request's corpus, which makes up the configured fraction of each batch."""
    text, share = OBJECTIVES[objective.kind].additional(objective, request, training), training.monolingual_fraction
    return ReplacementText(task, text) if share == 1.0 else AuxiliaryText(task, text, share)
