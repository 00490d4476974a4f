"""The types in which a family describes its models: sides, embeddings, parameter counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn

    from subgraft.config.settings_base import SideName


Config: TypeAlias = Mapping[str, Any]


class Parameters(NamedTuple):
    """Parameter counts. trained: excludes parameters that training never changes, such as Marian's positions."""

    total: int
    trained: int


class TableSize(NamedTuple):
    """The size of one embedding or projection tensor, and the sides that use it (none if it is unused)."""

    sides: frozenset[SideName]
    numbers: int


class Projection(NamedTuple):
    """The linear maps [inputs, outputs] whose names end in `name`. times: how many of them the model has."""

    name: str
    inputs: int
    outputs: int
    times: int


@dataclass(frozen=True)
class Side:
    """One side of a model: references to the model's modules and tensors, not copies.

    Attributes:
        name: `encoder` or `decoder`.
        input: The input embeddings [V, d].
        output: The output projection [V, d]; None on the encoder.
        bias: The bias that is added to the logits, [1, V] or [V], if any.
        tied: Whether the output projection is the input embedding matrix.
        padding_id: The row that receives no gradient.
        transform: Applied to top hidden states before the output projection, if any.
        cap: c if logits x become c * tanh(x / c), as in Gemma 2.
    """

    name: SideName
    input: nn.Embedding
    output: nn.Linear | None
    bias: Tensor | None
    tied: bool
    padding_id: int | None
    transform: Callable[[Tensor], Tensor] | None = None
    cap: float | None = None


@dataclass(frozen=True)
class Tables:
    """New tensors of a side: input [V, d]; output [V, d], None if tied to the input; bias [V], if any."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None
    padding_id: int | None


def rotary_scaling(config: Config) -> Mapping[str, Any]:
    """The scaling of positions, under the names of older and newer config.json files."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {**scaling, "rope_type": scaling.get("rope_type") or scaling.get("type") or "default"}
