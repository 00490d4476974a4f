"""Token Distillation (Dobler, Elliott and de Melo 2025); `learned_rows.token_distillation_loss` explains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from subgraft.config.settings_base import Count, Settings, SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import LearningStage, MethodSpec, TrainingGroup
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class TokenDistillationSettings(Settings):
    """New embeddings by distilling hidden states (Dobler, Elliott and de Melo 2025); their training is a separate
    group.

    sentences_per_token: a sentence is read if one of its new tokens has occurred in fewer sentences than this.
    layer: the layer after which states are compared, from 1; the last by default.
    distance: the distance between two states: mean squared difference, Euclidean, or Euclidean relative to the norm.
    """

    sentences_per_token: Count = 100
    layer: Count | None = None
    distance: Literal["squared", "euclidean", "relative"] = "squared"


class TokenDistillationGroups(Settings):
    """
    token_distillation: for systems of `token-distillation`.
    token_distillation_training: the training of these embeddings; required if there is such a system.
    """

    token_distillation: TokenDistillationSettings = TokenDistillationSettings()
    token_distillation_training: TrainingSettings | None = None


class DistillationStage(LearningStage):
    """Base of trainings in which the model with new tokens imitates itself without them.

    The encoder also reads the source of an input `text`, the decoder pairs of `synthetic`.
    """

    new_tokens_only: ClassVar[bool] = True
    settings_field: ClassVar[str] = "distillation"

    sides: tuple[SideName, ...]
    distillation: Any

    @property
    def sides_with_text(self) -> tuple[SideName, ...]:
        return self.sides

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """The new vocabulary's embeddings, and differences of new tokens, which are trained; one side at a time."""
        new = max(map(sizes.new_tokens, self.sides)) * sizes.width
        return ExtraParameters(held=max(map(sizes.vocabulary, self.sides)) * sizes.width + new, trained=new)


class TokenDistillationStage(DistillationStage):
    """Token Distillation."""

    stage_name: ClassVar[str] = "distillation"
    revision: ClassVar[int] = 2

    distillation: TokenDistillationSettings

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.learned_rows.distillation import Compared, distil
        from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs
        from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss

        return distil(
            self, Compared(TOKEN_DISTILLATION, SegmentationPairs, TokenDistillationLoss), inputs, out, context
        )


TOKEN_DISTILLATION = MethodSpec(
    name="token-distillation",
    start="trained: the frozen model's hidden states approach those on its pieces",
    source="Dobler, Elliott and de Melo 2025",
    learning=TokenDistillationStage,
    training=TrainingGroup(
        "token_distillation_training",
        small={"epochs": 2, "learning_rate": 0.003},
        gpu={"epochs": 3, "learning_rate": 0.001},
        paper={"epochs": 3, "learning_rate": 5e-4},
    ),
)
