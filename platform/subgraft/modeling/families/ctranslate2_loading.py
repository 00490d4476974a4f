# mypy: allow-untyped-calls
"""Models as CTranslate2 describes them: its own loaders, asked for one by the name of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def specification(loader: str, model: PreTrainedModel, **config: Any) -> Any:
    """The model's description with its weights, made by a class of ctranslate2.converters.transformers.

    config: what the loader reads from the model's configuration beyond what is there. The model is used up.
    Raises UserError for what CTranslate2 cannot do (an activation, a scaling of positions).
    """
    from ctranslate2.converters import transformers as loaders

    for name, value in config.items():
        setattr(model.config, name, value)
    try:
        return getattr(loaders, loader)().get_model_spec(model)
    except (NotImplementedError, KeyError) as error:
        raise UserError(f"CTranslate2 cannot run this {model.config.model_type} model: {error}") from error
