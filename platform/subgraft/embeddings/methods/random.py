"""Random rows: the usual baseline, and its control with the spread of the old rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from subgraft.embeddings.methods.method import MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows


def draw_random(request: InitialiserInputs) -> NewRows:
    """N(0, scale²), like the model's own initialisation; the bias is zero."""

    rows = _draw_rows(request, lambda noise, table: noise * request.scale)
    return replace(rows, scale=request.scale)


def draw_matched(request: InitialiserInputs) -> NewRows:
    """Normal with the per-dimension mean and standard deviation of ordinary tokens' rows; the bias is zero."""
    import torch

    ordinary = torch.from_numpy(request.source.ordinary_ids)

    def matched(noise: Tensor, table: Tensor) -> Tensor:
        variance, mean = torch.var_mean(table[ordinary], dim=0)
        return noise * variance.sqrt() + mean

    return _draw_rows(request, matched)


def _draw_rows(request: InitialiserInputs, fit: Callable[[Tensor, Tensor], Tensor]) -> NewRows:
    import torch

    from subgraft.embeddings.initialisers.new_rows import NewRows
    from subgraft.modeling.sides import FloatTables

    # The two sides of a model must not get the same noise.
    randomness = torch.Generator().manual_seed(2 * request.seed + (request.side.name == "decoder"))
    count = len(request.entries) + request.others

    def draw(table: Tensor | None) -> Tensor | None:
        if table is None:
            return None
        return fit(torch.randn(count, table.shape[1], generator=randomness), table)

    tables = FloatTables.of(request.side)
    input_rows = draw(tables.input)
    assert input_rows is not None
    return NewRows(input_rows, draw(tables.output), None if tables.bias is None else torch.zeros(count), {})


RANDOM = MethodSpec(
    name="random",
    start="normal noise of the scale that the model's weights were drawn with",
    source="the usual baseline",
    rows=draw_random,
    seeded=True,
    random=True,
)
RANDOM_MATCHED = MethodSpec(
    name="random-matched",
    start="normal noise with the mean and spread of each dimension of the old embeddings",
    source="a control for `random`",
    rows=draw_matched,
    seeded=True,
    random=True,
)
