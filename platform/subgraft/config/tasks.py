"""The properties of each task, for settings and plans; `data.tasks` has the code that makes its pairs.

To add one: its name and properties here, and the function that makes its pairs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from subgraft.config.conditioning import SourceName
from subgraft.config.objectives import (
    CausalSettings,
    ConditionedSettings,
    FeatureConditionedSettings,
    TaskObjectiveSettings,
    TextConditionedSettings,
    TranslationSettings,
)
from subgraft.config.settings_base import MetricName

TaskName = Literal[
    "translation",
    "question-generation",
    "text-to-text",
    "continuation",
    "class-conditional",
    "text-conditional",
    "feature-conditional",
]


@dataclass(frozen=True)
class TaskFacts:
    """called: the task in words.  of_questions: whether its corpus holds questions on passages (squad), whose pairs
    have the answer between marks.  two_languages: whether source and target must differ.  metrics: what its outputs are
    scored by; none of a task that is judged by bits per character.  finetuned_on: how its text is learnt; what needs no
    pairs is of one text in one language, which a decoder alone continues.  hub_tag: what the Hugging Face hub calls it.
    defaults: settings that it needs otherwise than translation does, by their group.
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
        """What a language model reads to write each text of the task's corpus, where it has a source."""
        return self.finetuned_on.source


_OF_TEXT: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
_BY_BITS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "likelihood"},
    "evaluation": {"calibration": False, "by_token_count": False},
}
# A passage is many times as long as a question about it, a text as its summary: rules of translation would drop most
# pairs.
_ANY_LENGTH = {"max_characters": None, "max_ratio": None}
TASKS: Mapping[TaskName, TaskFacts] = {
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
}


def tasks_with(fact: str) -> list[TaskName]:
    """The tasks that have something of this field, in the order of the table."""
    return [name for name, facts in TASKS.items() if getattr(facts, fact)]
