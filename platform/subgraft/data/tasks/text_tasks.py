"""Tasks whose models write text: pairs of texts, text alone, conversations, and text for a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subgraft.data.tasks.task import ANY_LENGTH, TEXT_METRICS, TaskSpec

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

TRANSLATION = TaskSpec(
    name="translation", called="Translation", hub_tag="translation", metrics=TEXT_METRICS, two_languages=True
)
TEXT_TO_TEXT = TaskSpec(
    name="text-to-text",
    called="Text-to-text",
    hub_tag="text2text-generation",
    metrics=TEXT_METRICS,
    defaults={"cleaning": ANY_LENGTH},
)
CONTINUATION = TaskSpec(
    name="continuation",
    called="Continuation",
    hub_tag="text-generation",
    finetuned_on={"kind": "causal", "packed": False},
    defaults=_SCORED_BY_BITS,
    checkpoint_defaults=_PRETRAINED_LANGUAGE_MODEL,
)
CLASS_CONDITIONAL = TaskSpec(
    name="class-conditional",
    called="Class-conditional generation",
    hub_tag="text-generation",
    finetuned_on={"kind": "conditioned"},
    defaults=_SCORED_BY_BITS,
)
TEXT_CONDITIONAL = TaskSpec(
    name="text-conditional",
    called="Text-conditional generation",
    hub_tag="text-generation",
    finetuned_on={"kind": "conditioned-on-text"},
    defaults={**_SCORED_BY_BITS, "cleaning": ANY_LENGTH},
)
FEATURE_CONDITIONAL = TaskSpec(
    name="feature-conditional",
    called="Feature-conditional generation",
    hub_tag="text-generation",
    finetuned_on={"kind": "conditioned-on-features"},
    # Only texts are compared for duplicates, and several images may have the same text.
    defaults={**_SCORED_BY_BITS, "cleaning": {"deduplicate": False, "drop_held_out": False}},
)
CHAT = TaskSpec(
    name="chat",
    called="Chat",
    hub_tag="text-generation",
    finetuned_on={"kind": "chat"},
    defaults={**_SCORED_BY_BITS, "cleaning": ANY_LENGTH},
    checkpoint_defaults=_PRETRAINED_LANGUAGE_MODEL,
)
