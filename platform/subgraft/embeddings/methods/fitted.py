"""New tokens that a decoder reads like their pieces, and predicts where it predicted these; `learned_rows.fitted`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from subgraft.config.settings_base import Count, Settings
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import MethodSpec, TrainingGroup
from subgraft.embeddings.methods.token_distillation import DistillationStage
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class FittedSettings(Settings):
    """New embeddings of a decoder: first distilled as input, then fitted as output; the distillation's training is a
    separate group.

    sentences_per_token: a sentence is distilled if one of its new tokens has occurred in fewer sentences than this.
    depth: the share of the layers after which states are compared.
    characters: the amount of the task's text from whose states new tokens are predicted.
    other_share: as much of it is read of upstream.corpus, if there is one, where new tokens should not be predicted.
    stiffness: for tied embeddings, how much a change of the distilled row costs.
    """

    sentences_per_token: Count = 20
    depth: Annotated[float, Field(gt=0, le=1)] = 0.4
    characters: Count = 160_000
    other_share: Annotated[float, Field(ge=0)] = 0.33
    stiffness: Annotated[float, Field(ge=0)] = 1.0


class FittedGroups(Settings):
    """
    fitted: for systems of `fitted`.
    fitted_training: the training of their input embeddings; required if there is such a system.
    """

    fitted: FittedSettings = FittedSettings()
    fitted_training: TrainingSettings | None = None


class FittedStage(DistillationStage):
    """Input embeddings by distillation below the middle of the model, output embeddings by a convex fit."""

    stage_name: ClassVar[str] = "fitted"
    revision: ClassVar[int] = 1

    distributed: ClassVar[bool] = False
    decoder_alone: ClassVar[bool] = True
    reads_upstream_text: ClassVar[bool] = True

    distillation: FittedSettings

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.learned_rows.fitted import learn_and_fit

        return learn_and_fit(self, inputs, out, context)


# As measured on SmolLM2, in every preset.
_TRAINING = {"epochs": 1, "batch_size": 1000, "learning_rate": 0.03, "warmup_steps": 3, "schedule": "linear"}
FITTED = MethodSpec(
    name="fitted",
    start="trained: a decoder reads it like its pieces; then fitted, so that it is predicted in their place",
    source="this project",
    learning=FittedStage,
    training=TrainingGroup(
        "fitted_training",
        small=_TRAINING,
        gpu=_TRAINING,
        paper=_TRAINING,
    ),
)
