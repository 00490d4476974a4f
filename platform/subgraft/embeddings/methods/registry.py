"""All methods of new embeddings, by name.

To add one: a module like `random.py` or `vocadt.py` and, here, its entry and its groups of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator, WithJsonSchema

from subgraft.base.errors import UserError
from subgraft.config import plugins
from subgraft.embeddings.methods.attention_influence import ATTENTION_INFLUENCE, AttentionInfluenceGroups
from subgraft.embeddings.methods.closed_forms import (
    CBOW,
    DONOR,
    FOCUS,
    LOCALLY_LINEAR,
    MEAN,
    OMP,
    RECONSTRUCTION,
    WECHSEL,
    WORD2VEC,
    WORD2VEC_MAPPED,
    StaticGroups,
)
from subgraft.embeddings.methods.fitted import FITTED, FittedGroups
from subgraft.embeddings.methods.likelihood_matching import LIKELIHOOD_MATCHING, LikelihoodMatchingGroups
from subgraft.embeddings.methods.method import MethodSpec
from subgraft.embeddings.methods.network import NETWORK, NetworkGroups
from subgraft.embeddings.methods.random import RANDOM, RANDOM_MATCHED
from subgraft.embeddings.methods.similar_tokens import ATT, AVG, PATT, GeneratorGroups
from subgraft.embeddings.methods.token_distillation import TOKEN_DISTILLATION, TokenDistillationGroups
from subgraft.embeddings.methods.vocadt import VOCADT, VocadtGroups

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows

# In the order of documents and messages.
ENTRIES: tuple[MethodSpec, ...] = (
    RANDOM,
    RANDOM_MATCHED,
    MEAN,
    AVG,
    ATT,
    PATT,
    NETWORK,
    RECONSTRUCTION,
    WORD2VEC,
    WORD2VEC_MAPPED,
    CBOW,
    FOCUS,
    WECHSEL,
    OMP,
    LOCALLY_LINEAR,
    DONOR,
    TOKEN_DISTILLATION,
    ATTENTION_INFLUENCE,
    LIKELIHOOD_MATCHING,
    VOCADT,
    FITTED,
)
METHODS: Mapping[str, MethodSpec] = {method.name: method for method in ENTRIES}


class MethodGroups(
    FittedGroups,
    VocadtGroups,
    LikelihoodMatchingGroups,
    AttentionInfluenceGroups,
    TokenDistillationGroups,
    StaticGroups,
    NetworkGroups,
    GeneratorGroups,
):
    """The groups of settings of all methods; fields are in the reverse order of these classes."""


_NO_NEW_ROWS = MethodSpec(name="", start="", source="")


def _require_known(name: str) -> str:
    group = plugins.METHODS if name in plugins.offered(plugins.METHODS) else plugins.INITIALISERS
    plugins.require_offered(group, name, METHODS)
    return name


# Editors complete the names of the table; an installed package may offer others.
_SCHEMA = WithJsonSchema({"anyOf": [{"enum": list(METHODS), "type": "string"}, {"type": "string"}]})
# A name of the table, or one that an installed package offers.
AnyInitialiser: TypeAlias = Annotated[str, AfterValidator(_require_known), _SCHEMA]


def method_spec(initialiser: str | None) -> MethodSpec:
    """The method of this name, built in or from a plugin; None: of a system without new tokens.

    Raises UserError for an unknown name.
    """
    if initialiser is None:
        return _NO_NEW_ROWS
    if (method := METHODS.get(initialiser)) is not None:
        return method
    methods, functions = plugins.offered(plugins.METHODS), plugins.offered(plugins.INITIALISERS)
    if (plugin := methods.get(initialiser)) is not None:
        return _offered_method(plugin)
    if (plugin := functions.get(initialiser)) is not None:
        # Its rows may depend on the seed.
        return MethodSpec(name=initialiser, start="", source="", rows=partial(_offered_rows, plugin, None), seeded=True)
    hint = f"Choose among {', '.join([*METHODS, *methods, *functions])}."
    raise UserError(f"unknown method {initialiser!r}", hint=hint)


def _offered_method(plugin: plugins.Plugin) -> MethodSpec:
    """The entry of another package. Raises UserError for one that a step would train: it has no settings here."""
    method = plugin.load()
    if not isinstance(method, MethodSpec) or method.rows is None or method.training is not None:
        message = "a method of another package is a MethodSpec with rows, and without training or learning"
        raise UserError(message, where=f"{plugin.name} of {plugin.package}")
    return replace(method, name=plugin.name, rows=partial(_offered_rows, plugin, method.rows))


def _offered_rows(
    plugin: plugins.Plugin, rows: Callable[[InitialiserInputs], NewRows] | None, request: InitialiserInputs
) -> NewRows:
    """Rows that another package makes. Raises UserError if they do not fit this request."""
    from subgraft.embeddings.initialisers.new_rows import NewRows

    made = (rows or plugin.load())(request)
    count, width = len(request.entries) + request.others, request.side.input.weight.shape[1]
    if not isinstance(made, NewRows) or made.input.shape != (count, width):
        raise UserError(f"did not return {count} rows of width {width}", where=f"{plugin.name} of {plugin.package}")
    return made


def package_of(initialiser: str) -> str | None:
    """The package and version that offers an initialiser; None for a built-in one."""
    groups = (plugins.METHODS, plugins.INITIALISERS)
    return next((each for group in groups for each in plugins.packages(group, [initialiser]).values()), None)


def names_with(property: str) -> list[str]:
    """The names of the methods for which this property is set, in the order of the table."""
    return [name for name, method in METHODS.items() if getattr(method, property)]
