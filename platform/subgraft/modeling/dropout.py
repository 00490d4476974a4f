"""Changing the dropout of an existing model: none in a frozen model, another rate in training."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)
RATES = ("dropout", "attention_dropout", "activation_dropout", "layerdrop")


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

    Dropout of attention weights is recognised by its place: `dropout` or `attn_dropout` of an attention module (but not
    of T5's layers around an attention). Adapters, whose dropout is in a ModuleDict, are unchanged.
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
