"""The properties of each task, for settings and plans; `data.tasks` has the code that makes its pairs.

A new task is an entry of TASKS, and a function in `data.tasks` if its files are not pairs of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from subgraft.config.conditioning import SourceName
from subgraft.config.corpora import CorpusSource
from subgraft.config.objectives import CausalSettings, TranslationSettings
from subgraft.config.settings_base import MetricName
from subgraft.config.task_objectives import (
    ConditionedSettings,
    ConversationSettings,
    FeatureConditionedSettings,
    LabelledPairsSettings,
    LabelledSettings,
    LabelSettings,
    PairTaskName,
    TaskObjectiveSettings,
    TextConditionedSettings,
    TextTaskName,
)


@dataclass(frozen=True)
class TaskFacts:
    """The properties of a task.

    Attributes:
        called: The task in words.
        hub_tag: Its name on the Hugging Face hub.
        metrics: The metrics of its outputs; none for a task that is scored in bits per character, or by its labels.
        of_questions: Whether its corpus has questions on passages (squad), with the answer between marks.
        two_languages: Whether source and target must differ.
        finetuned_on: The objective; one without pairs is of one text in one language, which a decoder alone continues.
        defaults: Settings that differ from translation's, by group.
    """

    called: str
    hub_tag: str
    metrics: tuple[MetricName, ...]
    of_questions: bool = False
    two_languages: bool = False
    finetuned_on: TaskObjectiveSettings = field(default_factory=TranslationSettings)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def source(self) -> SourceName | None:
        """The kind of source that a language model reads, if it has one."""
        return self.finetuned_on.source


_OF_TEXT: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
_BY_BITS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "likelihood"},
    "evaluation": {"calibration": False, "by_token_count": False},
}
# A passage is many times as long as a question about it, a text as its summary: rules of translation would drop most
# pairs.
_ANY_LENGTH = {"max_characters": None, "max_ratio": None}
_BY_LABELS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "score", "label_smoothing": 0.0},
    "multitask_training": {"select": "score", "label_smoothing": 0.0},
    "evaluation": {"calibration": False, "by_token_count": False},
    "cleaning": _ANY_LENGTH,
}


def _of_text(task: TextTaskName, called: str, hub_tag: str) -> TaskFacts:
    return TaskFacts(called, hub_tag, (), finetuned_on=LabelledSettings(task=task), defaults=_BY_LABELS)


def _of_pairs(task: PairTaskName, called: str, hub_tag: str) -> TaskFacts:
    return TaskFacts(called, hub_tag, (), finetuned_on=LabelledPairsSettings(task=task), defaults=_BY_LABELS)


TASKS: Mapping[str, TaskFacts] = {
    "translation": TaskFacts("Translation", "translation", _OF_TEXT, two_languages=True),
    "question-generation": TaskFacts(
        "Question-generation",
        "text2text-generation",
        _OF_TEXT,
        of_questions=True,
        # A question is shorter than its passage, so an output that grows as long repeats itself.
        defaults={"cleaning": _ANY_LENGTH, "evaluation": {"max_length_ratio": 1.0}},
    ),
    "text-to-text": TaskFacts("Text-to-text", "text2text-generation", _OF_TEXT, defaults={"cleaning": _ANY_LENGTH}),
    "continuation": TaskFacts(
        "Continuation",
        "text-generation",
        (),
        finetuned_on=CausalSettings(packed=False),
        defaults=_BY_BITS,
    ),
    "class-conditional": TaskFacts(
        "Class-conditional generation",
        "text-generation",
        (),
        finetuned_on=ConditionedSettings(),
        defaults=_BY_BITS,
    ),
    "text-conditional": TaskFacts(
        "Text-conditional generation",
        "text-generation",
        (),
        finetuned_on=TextConditionedSettings(),
        defaults={**_BY_BITS, "cleaning": _ANY_LENGTH},
    ),
    "feature-conditional": TaskFacts(
        "Feature-conditional generation",
        "text-generation",
        (),
        finetuned_on=FeatureConditionedSettings(),
        # Texts alone are compared, and several images may have the same text.
        defaults={**_BY_BITS, "cleaning": {"deduplicate": False, "drop_held_out": False}},
    ),
    "chat": TaskFacts(
        "Chat",
        "text-generation",
        (),
        finetuned_on=ConversationSettings(),
        defaults={**_BY_BITS, "cleaning": _ANY_LENGTH},
    ),
    "classification": _of_text("classification", "Classification", "text-classification"),
    "pair-classification": _of_pairs("pair-classification", "Classification of pairs", "text-classification"),
    "regression": _of_pairs("regression", "Regression", "text-classification"),
    "multiple-choice": _of_pairs("multiple-choice", "Multiple choice", "multiple-choice"),
    "span-extraction": _of_pairs("span-extraction", "Span extraction", "question-answering"),
    "tagging": _of_text("tagging", "Tagging", "token-classification"),
    "ranking": _of_pairs("ranking", "Ranking", "text-ranking"),
    "relation-classification": _of_text("relation-classification", "Relation classification", "text-classification"),
    "entity-typing": _of_text("entity-typing", "Entity typing", "text-classification"),
}


if TYPE_CHECKING:
    TaskName: TypeAlias = str
else:  # settings and their JSON schema accept exactly the names of the table
    TaskName = Literal[tuple(TASKS)]


def labelled_by(task: TaskName, corpus: CorpusSource | None, labels: LabelSettings) -> TaskObjectiveSettings:
    """How the labels of a task are learnt; a regression is of one text or two, as its corpus has them."""
    learnt = TASKS[task].finetuned_on.model_copy(update={"labels": labels})
    examples = corpus.labelled if corpus is not None else None
    if task == "regression" and examples is not None and examples.text_pair is None:
        return LabelledSettings(task="regression", labels=labels)
    return learnt


def tasks_with(fact: str) -> list[TaskName]:
    """The tasks that have something of this field, in the order of the table."""
    return [name for name, facts in TASKS.items() if getattr(facts, fact)]


def reads_labels(task: str) -> bool:
    """Whether a task is to predict labels, by a head; False for one that is unknown."""
    return task in TASKS and TASKS[task].finetuned_on.understands
