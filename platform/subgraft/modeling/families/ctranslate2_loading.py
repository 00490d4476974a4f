# mypy: allow-untyped-calls
"""CTranslate2's specification of a model, from one of CTranslate2's own loaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def specification(loader: str, model: PreTrainedModel, **config: Any) -> Any:
    """The specification with weights, from a loader class of ctranslate2.converters.transformers. Consumes the model.

    config: values that the loader expects in the model's configuration. Raises UserError for features that CTranslate2
    does not support, such as an activation function.
    """
    from ctranslate2.converters import transformers as loaders

    for name, value in config.items():
        setattr(model.config, name, value)
    try:
        return getattr(loaders, loader)().get_model_spec(model)
    except (NotImplementedError, KeyError) as error:
        raise UserError(f"CTranslate2 cannot run this {model.config.model_type} model: {error}") from error
