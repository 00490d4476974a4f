"""Sizes that belong together: `paper`, `gpu` and `small`; and what a task needs otherwise than translation does.

What a configuration says itself goes before both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subgraft.config.models import DEFAULT_FAMILY, SETTINGS_OF_FAMILY

# On tatoeba's 1.6 million target tokens the paper's 4,000 warm-up steps of 25,000 tokens are some 70 epochs;
# `small` warms up over a third of an epoch, `gpu` over some four of its fifteen. docs/results.md has what was measured.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {
        "model": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "layers": 6,
            "attention_heads": 8,
            "ffn_dim": 2048,
            "dropout": 0.3,
        },
        "pretrain": {
            "epochs": 40,
            "batch_size": 25000,
            "learning_rate": 5e-4,
            "warmup_steps": 4000,
            "adam_beta2": 0.999,
            "adam_epsilon": 1e-8,
            "precision": "bf16",
            "patience": 10,
            "dev_sentences": 1000,
        },
        "generator_training": {
            "max_steps": 2000,
            "batch_size": 8000,
            "learning_rate": 5e-4,
            "warmup_steps": 200,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "token_distillation_training": {
            "epochs": 3,
            "batch_size": 8000,
            "learning_rate": 5e-4,
            "warmup_steps": 200,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "likelihood_matching_training": {
            "epochs": 3,
            "batch_size": 8000,
            "learning_rate": 1.5e-3,
            "warmup_steps": 200,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "finetune": {
            "epochs": 40,
            "batch_size": 100000,
            "batch_unit": "characters",
            "learning_rate": 5e-4,
            "warmup_steps": 4000,
            "adam_beta2": 0.999,
            "adam_epsilon": 1e-8,
            "precision": "bf16",
            "patience": 10,
            "dev_sentences": 1000,
        },
    },
    "gpu": {
        "model": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "layers": 6,
            "attention_heads": 8,
            "ffn_dim": 2048,
            "dropout": 0.2,
        },
        "pretrain": {
            "epochs": 15,
            "batch_size": 12000,
            "learning_rate": 7e-4,
            "warmup_steps": 500,
            "precision": "bf16",
            "patience": 4,
            "dev_sentences": 1000,
        },
        "generator_training": {
            "max_steps": 1500,
            "batch_size": 8000,
            "learning_rate": 1e-2,
            "warmup_steps": 50,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "token_distillation_training": {
            "epochs": 3,
            "batch_size": 8000,
            "learning_rate": 1e-3,
            "warmup_steps": 50,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "likelihood_matching_training": {
            "epochs": 3,
            "batch_size": 8000,
            "learning_rate": 3e-3,
            "warmup_steps": 50,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "finetune": {
            "epochs": 15,
            "batch_size": 32000,
            "batch_unit": "characters",
            "learning_rate": 5e-4,
            "warmup_steps": 100,
            "precision": "bf16",
            "patience": 4,
            "dev_sentences": 1000,
        },
    },
    "small": {
        "model": {
            "d_model": 256,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "layers": 3,
            "attention_heads": 4,
            "ffn_dim": 512,
            "dropout": 0.1,
        },
        "pretrain": {
            "epochs": 2,
            "batch_size": 2000,
            "learning_rate": 1e-3,
            "warmup_steps": 500,
            "precision": "bf16",
        },
        "generator_training": {
            "max_steps": 300,
            "batch_size": 4000,
            "learning_rate": 1e-2,
            "warmup_steps": 20,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "token_distillation_training": {
            "epochs": 2,
            "batch_size": 4000,
            "learning_rate": 3e-3,
            "warmup_steps": 20,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "likelihood_matching_training": {
            "epochs": 2,
            "batch_size": 4000,
            "learning_rate": 1e-2,
            "warmup_steps": 20,
            "label_smoothing": 0.0,
            "precision": "bf16",
        },
        "finetune": {
            "epochs": 4,
            "batch_size": 6000,
            "batch_unit": "characters",
            "learning_rate": 1e-3,
            "embedding_learning_rate": 4e-3,
            "warmup_steps": 100,
            "precision": "bf16",
        },
    },
}

# A passage is many times as long as a question about it, a text as its summary: rules of translation would drop most
# pairs. A question is shorter than its passage, so an output that grows as long repeats itself.
TASKS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "question-generation": {
        "cleaning": {"max_characters": None, "max_ratio": None},
        "evaluation": {"max_length_ratio": 1.0},
    },
    "text-to-text": {"cleaning": {"max_characters": None, "max_ratio": None}},
}


# Groups that rows with some initialiser alone need. Elsewhere they stay out of the experiment, and of its fingerprints.
_ONLY_FOR: Mapping[str, str] = {
    "token_distillation_training": "token-distillation",
    "likelihood_matching_training": "likelihood-matching",
}


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the groups of its preset and its task filled in beneath it.

    An unknown preset or task is left for validation to name.
    """
    preset = _named(PRESETS, given.get("preset", "small"))
    filled = dict(given)
    for group, defaults in (preset | _named(TASKS, given.get("task"))).items():
        if group in given or group not in _ONLY_FOR or _has_row(given, _ONLY_FOR[group]):
            own = given.get(group, {})
            beneath = _of_family(defaults, own) if group == "model" else defaults
            filled[group] = {**beneath, **own} if isinstance(own, Mapping) else own
    return filled


def _of_family(defaults: Mapping[str, Any], own: object) -> dict[str, Any]:
    """Of a preset's model, what the configuration's family has settings for; a stack that is alone has `layers`."""
    family = own.get("family", DEFAULT_FAMILY) if isinstance(own, Mapping) else DEFAULT_FAMILY
    settings = SETTINGS_OF_FAMILY.get(family) if isinstance(family, str) else None
    known = () if settings is None else settings.model_fields
    return {"family": family} | {name: value for name, value in defaults.items() if name in known}


def _named(table: Mapping[str, Mapping[str, Mapping[str, Any]]], name: object) -> dict[str, Mapping[str, Any]]:
    return dict(table.get(name, {})) if isinstance(name, str) else {}


def _has_row(given: Mapping[str, Any], initialiser: str) -> bool:
    rows = given.get("rows", ())
    rows = rows if isinstance(rows, list | tuple) else ()
    return any(isinstance(row, Mapping) and row.get("initialiser") == initialiser for row in rows)
