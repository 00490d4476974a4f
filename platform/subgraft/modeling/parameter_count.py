"""Parameter counts and configurations of models, computed from config.json without loading weights or torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import Config, Parameters, family_named, family_of
from subgraft.modeling.families.conditional import with_source

if TYPE_CHECKING:
    from subgraft.config.models import ModelSettings
    from subgraft.config.settings_base import SideName

T = TypeVar("T")

__all__ = [
    "Parameters",
    "as_both_sides",
    "count_parameters",
    "described",
    "vocabulary_sizes",
    "with_source",
    "with_vocabularies",
]


def count_parameters(config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
    """Parameters of the model in a config.json; tied tensors count once. frozen: sides with frozen embeddings."""
    return _told(lambda: family_of(config).parameters(config, frozen))


def described(model: ModelSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
    """The configuration of a new model, in all that its number of parameters depends on."""
    return family_named(model.family).described(model, encoder_size, decoder_size)


def as_both_sides(config: Config) -> dict[str, Any]:
    """The configuration of the model that is made of one that does not generate text itself."""
    return _told(lambda: family_of(config).assembled(config))


def vocabulary_sizes(config: Config) -> dict[SideName, int]:
    """The number of rows of each side's embeddings."""
    return _told(lambda: family_of(config).vocabulary_sizes(config))


def with_vocabularies(config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
    """The configuration after a transfer that gives some sides vocabularies of other sizes."""
    return _told(lambda: family_of(config).with_vocabularies(config, sizes))


def _told(ask: Callable[[], T]) -> T:
    """What a family tells by a config.json. Raises UserError where that lacks what the family goes by."""
    try:
        return ask()
    except KeyError as error:
        raise UserError(f"config.json does not say {error}, which a model of its type needs") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(f"config.json describes no model of its type: {error}") from error
