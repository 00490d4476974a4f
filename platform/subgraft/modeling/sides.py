"""The sides of a model: its input tables, output projection and bias, wherever its family keeps them."""

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
    """The sides this model has. Raises UserError for a family that is not known."""
    return family_of(model).sides


def side(model: PreTrainedModel, name: SideName) -> Side:
    """One side of the model. Raises UserError where the model has no such side."""
    return family_of(model).side(model, name)


def side_config(model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
    """The configuration that holds a side's sizes: the model's own, unless each side has one."""
    return family_of(model).side_config(model, name)


def tables_of(model: PreTrainedModel, names: Iterable[SideName]) -> dict[str, Tensor]:
    """A model's own tables of some sides: SIDE.input, SIDE.output (perhaps the same), SIDE.bias where it is trained."""
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
    """Whether encoder and decoder read one and the same input table."""
    family = family_of(model)
    tables = [family.input_table(model, name).weight for name in family.sides]
    return len(tables) > 1 and all(table is tables[0] for table in tables)


def replace_tables(model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
    """The model with new tables at the given sides; sizes and padding ids in its configuration follow.

    The given model is used up: its other weights are moved, not copied. Tied projections stay tied, untied ones
    untied. Raises UserError for a side that the model does not have, and where its family cannot have such tables.
    """
    for name in tables:
        side(model, name)
    return family_of(model).replace_tables(model, tables)
