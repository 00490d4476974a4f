"""Sizes that belong together: `paper`, `gpu` and `small`. What a task needs otherwise goes before them.

What a configuration says itself goes before both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subgraft.config.initialiser_facts import INITIALISERS, LEARNINGS
from subgraft.config.tasks import TASKS

# On tatoeba's 1.6 million target tokens the paper's 4,000 warm-up steps of 25,000 tokens are some 70 epochs;
# `small` warms up over a third of an epoch, `gpu` over some four of its fifteen. docs/results.md has what was measured.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {
        "model": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
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

# Groups that rows with some initialiser alone need, by the training that makes these rows. Elsewhere they stay out of
# the experiment, and of its fingerprints.
_ONLY_FOR: Mapping[str, str] = {facts.training: learning for learning, facts in LEARNINGS.items()}
_OF_TASKS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {name: facts.defaults for name, facts in TASKS.items()}


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the groups of its preset and its task filled in beneath it.

    An unknown preset or task is left for validation to name.
    """
    preset = _named(PRESETS, given.get("preset", "small"))
    filled = dict(given)
    for group, defaults in (preset | _named(_OF_TASKS, given.get("task"))).items():
        if group in given or group not in _ONLY_FOR or _has_row(given, _ONLY_FOR[group]):
            own = given.get(group, {})
            filled[group] = {**defaults, **own} if isinstance(own, Mapping) else own
    return filled


def _named(table: Mapping[str, Mapping[str, Mapping[str, Any]]], name: object) -> dict[str, Mapping[str, Any]]:
    return dict(table.get(name, {})) if isinstance(name, str) else {}


def _has_row(given: Mapping[str, Any], learning: str) -> bool:
    rows = given.get("rows", ())
    rows = rows if isinstance(rows, list | tuple) else ()
    return any(isinstance(row, Mapping) and _learnt_by(row.get("initialiser")) == learning for row in rows)


def _learnt_by(initialiser: object) -> str | None:
    """Of a name that nothing has checked yet."""
    return next((facts.learnt_by for name, facts in INITIALISERS.items() if name == initialiser), None)
