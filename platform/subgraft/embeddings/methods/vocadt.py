"""VocADT (Han et al., ICLR 2025): rows as combinations of old rows; `learned_rows.vocadt` explains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import LearningStage, MethodSpec, TrainingGroup
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class VocadtGroups(Settings):
    """vocadt_training: the training of the embeddings of systems of `vocadt`; required if there is such a system."""

    vocadt_training: TrainingSettings | None = None


class VocadtStage(LearningStage):
    """VocADT, trained on `max_train_examples` pairs of the task (None: all)."""

    stage_name: ClassVar[str] = "vocadt"
    revision: ClassVar[int] = 2

    sides: tuple[SideName, ...]
    max_train_examples: int | None = None

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Old and new embeddings, and a weight for each pair of a new and an old token.

        The embeddings are held in addition to the model's. An untied output projection doubles the weights. This is an
        upper bound: as if all old tokens occurred in the text.
        """
        old, held, trained = sizes.tables("model"), 0, 0
        for side in self.sides:
            tables = 2 if side == "decoder" and not sizes.tied else 1
            trained += tables * sizes.new_tokens(side) * old[side]
            held += tables * (sizes.vocabulary(side) + old[side]) * sizes.width
        return ExtraParameters(held=trained + held, trained=trained)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.learned_rows.vocadt import run

        return run(self, inputs, out, context)


VOCADT = MethodSpec(
    name="vocadt",
    start="a mixture of the old embeddings that the text uses, trained with the frozen model's loss",
    source="Han et al. 2025 (VocADT), who mix all",
    learning=VocadtStage,
    # Adam moves all weights of a row at once, so the learning rate is far below that of rows.
    training=TrainingGroup(
        "vocadt_training",
        small={"max_steps": 200, "learning_rate": 1e-4, "patience": 3},
        gpu={"max_steps": 1000, "learning_rate": 1e-4, "patience": 3},
        paper={"max_steps": 1000, "learning_rate": 5e-5, "patience": 3},
    ),
)
