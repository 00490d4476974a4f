"""Settings of a new ERNIE 3."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_WIDTH
from subgraft.config.model_shapes import Layers, OneStackSettings
from subgraft.config.settings_base import Share, SideName


class BranchedSettings(OneStackSettings):
    """ERNIE 3 (Sun et al., 2021): a universal body, and on it a branch for understanding and one for writing.

    layers: layers of the body.
    branch_layers, branch_width, branch_heads, branch_ffn_dim: the sizes of each branch.
    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"masked", "causal", "knowledge-text"})
    vocabulary_kinds = ("wordpiece",)
    recurrent = True

    family: Literal["branched"] = "branched"
    branch_layers: Layers = 3
    branch_width: Annotated[int, Field(ge=8, le=MAX_WIDTH)] = 256
    branch_heads: Annotated[int, Field(ge=1, le=1024)] = 4
    branch_ffn_dim: Annotated[int, Field(ge=8, le=1_048_576)] = 1024
    dropout: Share = 0.1

    def depth(self, side: SideName) -> int:
        return self.layers + self.branch_layers

    @model_validator(mode="after")
    def _branch_heads_divide(self) -> BranchedSettings:
        if self.branch_width % self.branch_heads:
            raise ValueError(f"branch_width {self.branch_width} is not divisible by branch_heads {self.branch_heads}")
        return self
