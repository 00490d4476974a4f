"""What a task declares for settings and plans. A module of a task loads neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from subgraft.config.settings_base import MetricName

TEXT_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "TER", "ROUGE-L", "METEOR")
# A passage is many times longer than a question about it, and a text than its summary, so the rules of translation
# would drop most pairs.
ANY_LENGTH: Mapping[str, Any] = {"max_characters": None, "max_ratio": None}


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task.

    Attributes:
        name: In configurations.
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

    name: str
    called: str
    hub_tag: str
    metrics: tuple[MetricName, ...] = ()
    of_questions: bool = False
    two_languages: bool = False
    finetuned_on: Mapping[str, Any] = field(default_factory=lambda: {"kind": "translation"})
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checkpoint_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
