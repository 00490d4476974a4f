"""Attention influence (Haltiuk and Smywiński-Pohl 2025); `learned_rows.attention_influence_loss` explains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.config.settings_base import Count, Settings
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import MethodSpec, TrainingGroup
from subgraft.embeddings.methods.token_distillation import DistillationStage
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class AttentionInfluenceSettings(Settings):
    """New embeddings by distilling how segments of a text attend to each other (Haltiuk and Smywiński-Pohl 2025);
    their training is a separate group.

    sentences_per_token: a sentence is read if one of its new tokens has occurred in fewer sentences than this.
    layer: the self-attention that is compared, from 1; by default after a third of the layers.
    """

    sentences_per_token: Count = 100
    layer: Count | None = None


class AttentionInfluenceGroups(Settings):
    """
    attention_influence: for systems of `attention-influence`.
    attention_influence_training: the training of these embeddings; required if there is such a system.
    """

    attention_influence: AttentionInfluenceSettings = AttentionInfluenceSettings()
    attention_influence_training: TrainingSettings | None = None


class AttentionInfluenceStage(DistillationStage):
    """Distillation of attention influence."""

    stage_name: ClassVar[str] = "attention-influence"
    revision: ClassVar[int] = 2

    distillation: AttentionInfluenceSettings

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.learned_rows.attention_influence_loss import AttentionInfluenceLoss
        from subgraft.embeddings.learned_rows.distillation import Compared, distil
        from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentPairs

        compared = Compared(ATTENTION_INFLUENCE, SegmentPairs, AttentionInfluenceLoss)
        return distil(self, compared, inputs, out, context)


ATTENTION_INFLUENCE = MethodSpec(
    name="attention-influence",
    start="trained: a text's segments attend to each other as on its pieces, in one early layer",
    source="Haltiuk and Smywiński-Pohl 2025 (MATT)",
    learning=AttentionInfluenceStage,
    training=TrainingGroup(
        "attention_influence_training",
        small={"epochs": 2, "learning_rate": 0.003},
        gpu={"epochs": 3, "learning_rate": 0.001},
        paper={"epochs": 3, "learning_rate": 5e-4},
    ),
)
