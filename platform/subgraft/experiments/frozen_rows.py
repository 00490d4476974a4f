"""What is told, and not forbidden, of systems whose new rows know nothing and are never trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subgraft.config.initialiser_registry import facts_of

if TYPE_CHECKING:
    from subgraft.config.comparison import Comparison


def frozen_random_rows(experiment: Comparison) -> list[str]:
    """A line for each system whose tables are frozen while they have rows that were drawn at random."""
    return [
        f"system {system.name}: its new rows are drawn at random and stay so, since its finetuning freezes the tables "
        "(train, or embedding_learning_rate: 0): these tokens will never mean anything to the model"
        for system in experiment.systems
        if system.finetuning(experiment.finetune).freezes_tables
        and (facts_of(system.initialiser).drawn or system.pretraining == "none")
    ]
