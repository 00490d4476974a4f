"""Rows that a trained network computes from a token's pieces; `generators.network` explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subgraft.embeddings.methods.method import MethodSpec, TrainingGroup

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import NewRows, Request


def _rows(request: Request) -> NewRows:
    from subgraft.embeddings.generators.network import add_to_mean

    return add_to_mean(request)


NETWORK = MethodSpec(
    name="network",
    start="the mean of its pieces, plus the output of a small trained network",
    source="ours; after Minixhofer, Ponti and Vulić 2024",
    rows=_rows,
    generator="network",
    trained="network",
    training=TrainingGroup(
        "network_training",
        small={"max_steps": 200, "batch_size": 2000, "learning_rate": 0.001, "schedule": "cosine"},
        gpu={"max_steps": 1000, "learning_rate": 0.001, "schedule": "cosine"},
        paper={"max_steps": 2000, "learning_rate": 0.001, "schedule": "cosine"},
    ),
)
