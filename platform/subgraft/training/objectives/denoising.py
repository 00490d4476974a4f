"""BART's and mBART's denoising."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.config.settings_base import NoiseName, Share
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs, TrainedText


def _default_noises() -> dict[NoiseName, float]:
    return {"infilling": 0.35, "permutation": 1.0}


class DenoisingSettings(AnyObjective):
    """BART's and mBART's denoising: reconstruct noised text (Lewis et al., ACL 2020, section 2.2).

    noises: each noise with its share: of the tokens for masking and deletion (a deleted token leaves no mark); of the
    words for infilling (each span becomes one mask token); of the blocks for permutation (of sentences) and rotation
    (to a random first token). The default is mBART's (Liu et al., TACL 2020); BART has {infilling: 0.3, permutation:
    1}.
    poisson_lambda: the mean number of words that a mask token of infilling replaces.
    block_tokens: noise is drawn over blocks of consecutive sentences of at most this many tokens (512 in the paper);
    the training's max_length by default. A block has sentences of one document, if the corpus has documents.
    """

    kind: Literal["denoising"] = "denoising"
    noises: dict[NoiseName, Share] = Field(default_factory=_default_noises)
    poisson_lambda: Annotated[float, Field(ge=0.1, le=1000)] = 3.5
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None

    needs_mask = True
    denoises = True
    draws_blocks = True
    sampled_as = "decoder"
    samples = True
    samples_targets = True

    @model_validator(mode="after")
    def _shares_add_up(self) -> DenoisingSettings:
        masked, deleted = self.noises.get("masking", 0.0), self.noises.get("deletion", 0.0)
        if masked + deleted > 1.0:
            raise ValueError(f"noises: masking {masked} and deletion {deleted} add up to more than 1")
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.denoising import denoise

        return denoise(self, request)

    def additional(self, request: ObjectiveInputs, training: FinetuneSettings) -> TrainedText:
        from subgraft.training.objectives.compute.denoising import DenoisedLines

        return DenoisedLines(self, request, training)
