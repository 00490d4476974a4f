"""Access to a loaded model of any family: the embeddings of its sides, hidden states, and dropout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from subgraft.modeling.families import Side as Side
from subgraft.modeling.families import Tables as Tables
from subgraft.modeling.families import family_of
from subgraft.modeling.families.heads import is_headed

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.settings_base import SideName

Model = TypeVar("Model", bound=nn.Module)
RATES = ("dropout", "attention_dropout", "activation_dropout", "layerdrop")


@dataclass(frozen=True)
class FloatTables:
    """A side's embeddings in fp32: input [V, d], output [V, d] unless it is tied, bias [V, 1]."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None

    @classmethod
    def of(cls, side: Side) -> FloatTables:
        output = None if side.output is None or side.tied else side.output.weight.detach().float()
        bias = None if side.bias is None else side.bias.detach().float().reshape(-1, 1)
        return cls(side.input.weight.detach().float(), output, bias)

    def joined(self) -> Tensor:
        """All tables concatenated by columns [V, columns]."""
        return torch.cat([table for table in (self.input, self.output, self.bias) if table is not None], dim=1)


def without_dropout(model: Model) -> Model:
    """The model itself with all dropout rates 0, so that training mode computes the same as evaluation mode.

    Evaluation mode is not sufficient, because transformers recomputes activations in training mode only.
    """
    for module in model.modules():
        for name in RATES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def set_hidden_dropout(model: nn.Module, rate: float) -> None:
    """Set the dropout of hidden states: `dropout` or `hidden_dropout_prob` of a configuration, and no other rate.

    Dropout of attention weights is recognised by its name: `dropout` or `attn_dropout` of an attention module (but not
    of T5's layers around an attention). Adapters, whose dropout is in a ModuleDict, are not changed.
    """
    for module in model.modules():
        if isinstance(module, nn.ModuleDict):
            continue
        kind = type(module).__name__
        attends = kind.endswith("Attention") and "Layer" not in kind
        if not attends and isinstance(getattr(module, "dropout", None), float):
            module.dropout = rate  # type: ignore[assignment]
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout) and not (attends and name in ("dropout", "attn_dropout")):
                child.p = rate


def encoder_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`.

    layer: the layer after which they are taken, counted from 1; None for the top, with the model's final norm.
    """
    return family_of(model).encoder_states(model, layer=layer, **inputs)


def decoder_states_from_memory(
    model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds`, given encoder states [B, S, d] and their mask."""
    return family_of(model).decoder_states(model, memory, mask, layer=layer, **inputs)


def stack_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds` in an encoder-only or decoder-only model."""
    return family_of(model).stack_states(model, layer=layer, **inputs)


def input_scale(model: nn.Module, side: Side) -> float:
    """The factor by which a side's embeddings must be multiplied before they are passed as `inputs_embeds`."""
    return family_of(model).input_scale(model, side)


def side_names(model: PreTrainedModel) -> tuple[SideName, ...]:
    """The sides of this model. Raises UserError for an unsupported family."""
    return family_of(model).sides


def side(model: PreTrainedModel, name: SideName) -> Side:
    """One side of the model. Raises UserError if the model has no such side."""
    return family_of(model).side(model, name)


def row_counts(model: PreTrainedModel) -> dict[SideName, int]:
    """The number of each side's input embeddings."""
    family = family_of(model)
    return {name: len(family.input_table(model, name).weight) for name in family.sides}


def side_config(model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
    """The configuration with a side's sizes: the model's, unless each side has its own."""
    return family_of(model).side_config(model, name)


def tables_of(model: PreTrainedModel, names: Iterable[SideName]) -> dict[str, Tensor]:
    """A model's embedding tensors: SIDE.input, SIDE.output (the same if tied), and SIDE.bias if it is trained."""
    tensors: dict[str, Tensor] = {}
    for name in names:
        tables = side(model, name)
        tensors[f"{name}.input"] = tables.input.weight
        if tables.output is not None:
            tensors[f"{name}.output"] = tables.output.weight
        if isinstance(tables.bias, nn.Parameter):
            tensors[f"{name}.bias"] = tables.bias
    return tensors


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
    family = family_of(model)
    if is_headed(model):
        from subgraft.modeling.families.table_replacement import replace_input_embeddings

        return replace_input_embeddings(family, model, tables)
    return family.replace_tables(model, tables)
