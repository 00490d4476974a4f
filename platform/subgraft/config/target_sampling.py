"""Settings of target sampling: what competes with the targets of a batch, where not all tokens do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.base.limits import LARGEST_COUNT
from subgraft.config.settings_base import Count, Settings


class NearestTargets(Settings):
    """The tokens nearest to the targets (Zheng et al., EMNLP 2021, section 3.1, algorithm 2).

    kind: the kind of target sampling.
    neighbours: for each target, the number of tokens with the largest inner products with its output embedding.
    rebuild_every: the neighbours are searched again after this many updates, for the targets of the next updates.
    drawn: the number of other tokens in the softmax, drawn uniformly for each batch; each is weighted by the number of
    tokens it stands for, so that the softmax's denominator is unbiased (Mussmann, Levy and Ermon, UAI 2017).
    """

    kind: Literal["nearest"] = "nearest"
    neighbours: Count = 50
    rebuild_every: Count = 500
    drawn: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] = 0


class UniformTargets(Settings):
    """Tokens drawn uniformly for each batch (Jean et al., ACL 2015, section 3).

    kind: the kind of target sampling.
    drawn: the number of tokens.
    """

    kind: Literal["uniform"] = "uniform"
    drawn: Count = 10_000


class NoiseContrastive(Settings):
    """Noise-contrastive estimation (Mnih and Teh, ICML 2012): logistic regression separates targets from uniform noise
    drawn for each batch. The softmax's denominator is taken to be the number of tokens.

    kind: the kind of target sampling.
    drawn: the number of noise tokens for each target of a batch.
    """

    kind: Literal["noise-contrastive"] = "noise-contrastive"
    drawn: Count = 10_000


TargetSamplingSettings = Annotated[
    NearestTargets | UniformTargets | NoiseContrastive,
    Field(discriminator="kind"),
]
