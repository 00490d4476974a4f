"""Dropout of a model that is there already: none at all where it is frozen, another rate while it is trained."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)
RATES = ("dropout", "attention_dropout", "activation_dropout", "layerdrop")


def without_dropout(model: Model) -> Model:
    """The model itself, all its dropout rates zero: in training mode it computes what it does in evaluation mode.

    Evaluation mode alone would not do, because transformers recomputes activations in training mode only.
    """
    for module in model.modules():
        for name in RATES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def set_hidden_dropout(model: nn.Module, rate: float) -> None:
    """Set the dropout of hidden states, which a model's `dropout` or `hidden_dropout_prob` is; no other changes.

    Dropout of attention weights is known by its place: in an attention's own `dropout` or `attn_dropout`, but not in
    T5's layers around an attention. An adapter's own dropout, in a dictionary by the adapter's name, is its own.
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
