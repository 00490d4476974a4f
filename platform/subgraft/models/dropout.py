"""A frozen model without dropout."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)
RATES = ("dropout", "attention_dropout", "activation_dropout", "layerdrop")


def without_dropout(model: Model) -> Model:
    """The model itself, all its dropout rates nought: in training mode it computes what it does in evaluation mode.

    Evaluation mode alone would not do, because transformers recomputes activations in training mode only.
    """
    for module in model.modules():
        for name in RATES:
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model
