"""Encoders with a causal mask. It is set in the configuration, so that it applies wherever the model is used."""

from __future__ import annotations

from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.modeling.heads import as_class


def left_to_right(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder with a causal mask. It is constructed again, because transformers' modules read the mask only then.

    The result shares the memory of the weights with the model, which must not be used afterwards.
    """
    return model if _sees_earlier(model) else as_class(model, type(model), 0, is_decoder=True, use_cache=False)


def require_left_to_right(model: PreTrainedModel) -> None:
    """Raises UserError for an encoder whose tokens see later ones."""
    if not _sees_earlier(model):
        raise UserError(
            f"the tokens of this {model.config.model_type} model see later ones",
            where=str(model.name_or_path),
            hint="It was not pretrained from left to right: write the objective that it was pretrained on.",
        )


def _sees_earlier(model: PreTrainedModel) -> bool:
    return bool(getattr(model.config, "is_decoder", False))
