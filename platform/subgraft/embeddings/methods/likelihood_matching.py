"""Likelihood matching (Minixhofer, Vulić and Ponti 2025); `learned_rows.likelihood_matching` explains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.config.settings_base import Count, Settings, SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import LearningStage, MethodSpec, StartName, TrainingGroup
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class LikelihoodMatchingSettings(Settings):
    """New embeddings by matching likelihoods of text (Minixhofer, Vulić and Ponti 2025); their training is a separate
    group.

    sentences_per_token: a sentence is read if one of its new tokens has occurred in fewer sentences than this.
    text: the text whose likelihood is matched: the task's references, or the frozen model's own translations of the
    task's sources.
    beam: beam size of these translations.
    temperature: τ, which divides log-likelihoods.
    boundary_threshold: spans are merged where the probability of a word boundary is below this (0.1 in the paper's
    outcome debiasing); null uses the smallest spans.
    """

    sentences_per_token: Count = 100
    text: Literal["references", "own-translations"] = "references"
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] = 1
    temperature: Annotated[float, Field(gt=0)] = 100.0
    boundary_threshold: Annotated[float, Field(gt=0, lt=1)] | None = None


class LikelihoodMatchingGroups(Settings):
    """
    likelihood_matching: for systems of `likelihood-matching`.
    likelihood_matching_training: the training of these embeddings; required if there is such a system.
    """

    likelihood_matching: LikelihoodMatchingSettings = LikelihoodMatchingSettings()
    likelihood_matching_training: TrainingSettings | None = None


class LikelihoodMatchingStage(LearningStage):
    """Likelihood matching.

    It also reads the pairs of an input `synthetic`.

    Attributes:
        starts_from: The initialiser of the rows that training starts with.
        max_similar: Of `avg`.
    """

    stage_name: ClassVar[str] = "matching"
    revision: ClassVar[int] = 1

    new_tokens_only: ClassVar[bool] = True
    settings_field: ClassVar[str] = "matching"
    decoder_alone: ClassVar[bool] = True

    starts_from: StartName
    max_similar: int
    matching: LikelihoodMatchingSettings

    @property
    def sides_with_text(self) -> tuple[SideName, ...]:
        return ("decoder",) if self.matching.text == "references" else ()

    def require(self, *, translates: bool) -> None:
        if self.matching.text == "own-translations" and not translates:
            raise ValueError(
                "likelihood_matching.text own-translations needs a model that can translate before it is finetuned: "
                "translation must be among upstream.objectives"
            )

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """The student has embeddings and biases of its own; differences of new tokens are trained."""
        of_token = sizes.width * (1 if sizes.tied else 2) + 1
        trained = sizes.new_tokens("decoder") * of_token
        return ExtraParameters(held=sizes.vocabulary("decoder") * of_token + trained, trained=trained)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.learned_rows.likelihood_matching import match_likelihood

        return match_likelihood(self, inputs, out, context)


LIKELIHOOD_MATCHING = MethodSpec(
    name="likelihood-matching",
    start="trained, input and output: text becomes as likely as under the frozen model",
    source="Minixhofer et al. 2025 (ALM)",
    learning=LikelihoodMatchingStage,
    training=TrainingGroup(
        "likelihood_matching_training",
        small={"epochs": 2, "learning_rate": 0.01},
        gpu={"epochs": 3, "learning_rate": 0.003},
        paper={"epochs": 3, "learning_rate": 0.0015},
    ),
)
