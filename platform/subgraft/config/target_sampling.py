"""Settings of target sampling: what competes with the targets of a batch, where not all tokens do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.base.limits import LARGEST_COUNT
from subgraft.config.settings_base import Count, Settings


class NearestTargets(Settings):
    """The targets' nearest tokens (Zheng et al., EMNLP 2021, section 3.1, algorithm 2).

    kind: which sampling it is.
    neighbours: of each target, the so many tokens whose output embeddings have the largest inner products with its own.
    rebuild_every: neighbours are searched anew after so many updates, for the targets of just as many to come.
    drawn: so many of all other tokens compete too, drawn anew for each batch, all equally likely; each counts for as
    many as are there for one that is drawn, so that the softmax's denominator is the whole one in expectation
    (Mussmann, Levy and Ermon, UAI 2017).
    """

    kind: Literal["nearest"] = "nearest"
    neighbours: Count = 50
    rebuild_every: Count = 500
    drawn: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] = Field(default=0, exclude_if=lambda given: given == 0)


class UniformTargets(Settings):
    """Tokens drawn anew for each batch, all equally likely (Jean et al., ACL 2015, section 3).

    kind: which sampling it is.
    drawn: how many.
    """

    kind: Literal["uniform"] = "uniform"
    drawn: Count = 10_000


class NoiseContrastive(Settings):
    """Targets are told from noise drawn anew for each batch, all tokens equally likely, by logistic regression
    (noise-contrastive estimation: Mnih and Teh, ICML 2012), the softmax's denominator being taken for the number of
    tokens.

    kind: which sampling it is.
    drawn: how many tokens are the noise of each target of a batch.
    """

    kind: Literal["noise-contrastive"] = "noise-contrastive"
    drawn: Count = 10_000


TargetSamplingSettings = Annotated[
    NearestTargets | UniformTargets | NoiseContrastive,
    Field(discriminator="kind"),
]
