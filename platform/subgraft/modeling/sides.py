"""The sides of a model of any family: input embeddings, output projection and bias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from subgraft.modeling.families import Side, Tables, family_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.settings_base import SideName

__all__ = ["Side", "Tables", "replace_tables", "shares_table", "side", "side_config", "side_names", "tables_of"]


def side_names(model: PreTrainedModel) -> tuple[SideName, ...]:
    """The sides of this model. Raises UserError for an unsupported family."""
    return family_of(model).sides


def side(model: PreTrainedModel, name: SideName) -> Side:
    """One side of the model. Raises UserError if the model has no such side."""
    return family_of(model).side(model, name)


def side_config(model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
    """The configuration with a side's sizes: the model's, unless each side has its own."""
    return family_of(model).side_config(model, name)


def tables_of(model: PreTrainedModel, names: Iterable[SideName]) -> dict[str, Tensor]:
    """A model's embedding tensors: SIDE.input, SIDE.output (the same if tied), and SIDE.bias if it is trained."""
    from torch import nn

    found: dict[str, Tensor] = {}
    for name in names:
        tables = side(model, name)
        found[f"{name}.input"] = tables.input.weight
        if tables.output is not None:
            found[f"{name}.output"] = tables.output.weight
        if isinstance(tables.bias, nn.Parameter):
            found[f"{name}.bias"] = tables.bias
    return found


def shares_table(model: PreTrainedModel) -> bool:
    """Whether encoder and decoder share one input embedding matrix."""
    family = family_of(model)
    tables = [family.input_table(model, name).weight for name in family.sides]
    return len(tables) > 1 and all(table is tables[0] for table in tables)


def replace_tables(model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
    """The model with new embeddings on some sides; its configuration gets their sizes and padding ids.

    Consumes the model: its other weights are moved, not copied. Tied projections stay tied, untied ones untied. Raises
    UserError for a side that the model does not have, and if its family does not support such embeddings.
    """
    for name in tables:
        side(model, name)
    return family_of(model).replace_tables(model, tables)
