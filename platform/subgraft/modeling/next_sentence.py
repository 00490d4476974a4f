"""A masked language model as transformers' class that also predicts whether a segment follows another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.modeling.families import family_of
from subgraft.modeling.heads import as_class

# The output layer in all of transformers' classes that have such a head.
_OUTPUT = "cls.seq_relationship"


def with_next_sentence(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """The model with a head for next sentences: its own if it has one, else one that depends on the seed only.

    A new head shares the memory of the weights with the model, which must not be used afterwards. Raises UserError
    where there is no such class.
    """
    family = family_of(model)
    if family.predicts_next_sentence(model.config.to_dict()):
        return model
    if family.next_sentence_class is None:
        raise no_such_head(family.model_type)
    return as_class(model, family.model_class_with_next_sentence(), seed)


def no_such_head(model_type: str) -> UserError:
    """The error for a model that cannot predict next sentences."""
    return UserError(
        f"transformers has no {model_type} model that predicts next sentences",
        hint="Write `next_sentence: false` in upstream.objectives, or take a BERT.",
    )


def require_next_sentence(model: PreTrainedModel) -> None:
    """Raises UserError for a model without a head for next sentences."""
    if not _modules(model):
        raise UserError(
            f"this {model.config.model_type} model has no head for next sentences",
            where=str(model.name_or_path),
            hint="Write `next_sentence: false` in upstream.objectives, or `upstream.continue_pretraining: true`.",
        )


def next_sentence_parameters(model: PreTrainedModel) -> Sequence[nn.Parameter]:
    """The parameters of a model's head for next sentences, the pooler among them; none if it has no such head."""
    return [each for part in _modules(model) for each in part.parameters()]


def next_sentence_logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits [B, 2] of top states [B, T, d]: that the second segment follows the first, and that it does not."""
    pooler, output = _modules(model)
    logits: Tensor = output(pooler(states))
    return logits


def _modules(model: PreTrainedModel) -> tuple[nn.Module, ...]:
    if not family_of(model).predicts_next_sentence(model.config.to_dict()):
        return ()
    base: Any = model.base_model
    return base.pooler, model.get_submodule(_OUTPUT)
