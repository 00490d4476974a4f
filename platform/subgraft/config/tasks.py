"""The properties of each task, for settings and plans; `data.tasks` has the code that makes its pairs.

A new task is an entry of TASKS, and a function in `data.tasks` if its files are not pairs of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from subgraft.config.settings_base import MetricName


@dataclass(frozen=True)
class TaskFacts:
    """The properties of a task.

    Attributes:
        called: The task in words.
        hub_tag: Its name on the Hugging Face hub.
        metrics: The metrics of its outputs; none for a task that is scored in bits per character, or by its labels.
        of_questions: Whether its corpus has questions on passages (squad), with the answer between marks.
        two_languages: Whether source and target must differ.
        finetuned_on: The objective, as in a configuration; `training.objectives.registry.task_objective` makes it.
            Without pairs it has one text in one language, which a decoder-only model continues.
        defaults: Settings that differ from translation's, by group.
        checkpoint_defaults: Further ones for a model that others pretrained, by group.
    """

    called: str
    hub_tag: str
    metrics: tuple[MetricName, ...]
    of_questions: bool = False
    two_languages: bool = False
    finetuned_on: Mapping[str, Any] = field(default_factory=lambda: {"kind": "translation"})
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checkpoint_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_TEXT_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
_SCORED_BY_BITS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "likelihood"},
    "evaluation": {"calibration": False, "by_token_count": False},
}
# A language model of billions of words is moved little: presets are tuned on small models that are pretrained here. On
# SmolLM2 the presets' smoothing, rates and schedule cost 0.15 bits per character
# (docs/measurements/pretrained-language-model.md).
_PRETRAINED_LANGUAGE_MODEL: Mapping[str, Mapping[str, Any]] = {
    "finetune": {
        "label_smoothing": 0.0,
        "learning_rate": 2e-4,
        "embedding_learning_rate": None,
        "schedule": "constant",
        "warmup_steps": 10,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "max_length": 512,
    },
}
# A passage is many times longer than a question about it, and a text than its summary, so the rules of translation
# would drop most pairs.
_ANY_LENGTH = {"max_characters": None, "max_ratio": None}
_SCORED_BY_LABELS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "score", "label_smoothing": 0.0},
    "multitask_training": {"select": "score", "label_smoothing": 0.0},
    "evaluation": {"calibration": False, "by_token_count": False},
    "cleaning": _ANY_LENGTH,
}


def _text_task(task: str, called: str, hub_tag: str) -> TaskFacts:
    return TaskFacts(called, hub_tag, (), finetuned_on={"kind": "labelled", "task": task}, defaults=_SCORED_BY_LABELS)


def _pair_task(task: str, called: str, hub_tag: str) -> TaskFacts:
    return TaskFacts(
        called, hub_tag, (), finetuned_on={"kind": "labelled-pairs", "task": task}, defaults=_SCORED_BY_LABELS
    )


TASKS: Mapping[str, TaskFacts] = {
    "translation": TaskFacts("Translation", "translation", _TEXT_METRICS, two_languages=True),
    "question-generation": TaskFacts(
        "Question-generation",
        "text2text-generation",
        _TEXT_METRICS,
        of_questions=True,
        # A question is shorter than its passage; longer outputs only repeat themselves.
        defaults={"cleaning": _ANY_LENGTH, "evaluation": {"max_length_ratio": 1.0}},
    ),
    "text-to-text": TaskFacts(
        "Text-to-text", "text2text-generation", _TEXT_METRICS, defaults={"cleaning": _ANY_LENGTH}
    ),
    "continuation": TaskFacts(
        "Continuation",
        "text-generation",
        (),
        finetuned_on={"kind": "causal", "packed": False},
        defaults=_SCORED_BY_BITS,
        checkpoint_defaults=_PRETRAINED_LANGUAGE_MODEL,
    ),
    "class-conditional": TaskFacts(
        "Class-conditional generation",
        "text-generation",
        (),
        finetuned_on={"kind": "conditioned"},
        defaults=_SCORED_BY_BITS,
    ),
    "text-conditional": TaskFacts(
        "Text-conditional generation",
        "text-generation",
        (),
        finetuned_on={"kind": "conditioned-on-text"},
        defaults={**_SCORED_BY_BITS, "cleaning": _ANY_LENGTH},
    ),
    "feature-conditional": TaskFacts(
        "Feature-conditional generation",
        "text-generation",
        (),
        finetuned_on={"kind": "conditioned-on-features"},
        # Only texts are compared for duplicates, and several images may have the same text.
        defaults={**_SCORED_BY_BITS, "cleaning": {"deduplicate": False, "drop_held_out": False}},
    ),
    "chat": TaskFacts(
        "Chat",
        "text-generation",
        (),
        finetuned_on={"kind": "chat"},
        defaults={**_SCORED_BY_BITS, "cleaning": _ANY_LENGTH},
        checkpoint_defaults=_PRETRAINED_LANGUAGE_MODEL,
    ),
    "classification": _text_task("classification", "Classification", "text-classification"),
    "pair-classification": _pair_task("pair-classification", "Classification of pairs", "text-classification"),
    "regression": _pair_task("regression", "Regression", "text-classification"),
    "multiple-choice": _pair_task("multiple-choice", "Multiple choice", "multiple-choice"),
    "span-extraction": _pair_task("span-extraction", "Span extraction", "question-answering"),
    "tagging": _text_task("tagging", "Tagging", "token-classification"),
    "ranking": _pair_task("ranking", "Ranking", "text-ranking"),
    "relation-classification": _text_task("relation-classification", "Relation classification", "text-classification"),
    "entity-typing": _text_task("entity-typing", "Entity typing", "text-classification"),
}


if TYPE_CHECKING:
    TaskName: TypeAlias = str
else:  # settings and their JSON schema accept exactly the names of the table
    TaskName = Literal[tuple(TASKS)]


def tasks_with(fact: str) -> list[TaskName]:
    """The names of the tasks for which this property is set, in the order of the table."""
    return [name for name, facts in TASKS.items() if getattr(facts, fact)]
