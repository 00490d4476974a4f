"""Transfer: a model with a new vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from subgraft.base.errors import ArgumentError
from subgraft.config.initialiser_registry import initialiser_info, names_with
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.registry import require_known
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.interfaces.api.arguments import require_sound, sides_of, whole
from subgraft.interfaces.api.outputs import Model, load
from subgraft.interfaces.api.vocabularies import VocabularyLike, vocabulary_of
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.stages.transfer import transferred


def transfer(
    model: Model | Path | str,
    vocabulary: VocabularyLike,
    *,
    method: str = "mean",
    generator: Path | str | None = None,
    static: Path | str | None = None,
    distilled: Path | str | None = None,
    sides: Sequence[SideName] = ("decoder",),
    max_similar: int = 10,
    seed: int = 1,
) -> Model:
    """The model with a new vocabulary, as `subgraft transfer` makes it; everything else is unchanged.

    Args:
        model: a model, a directory or a hub id. A `Model` is copied, not modified.
        vocabulary: the new vocabulary.
        method: the initialiser of new tokens, see docs/guide.md.
        generator: directory of a trained generator, for methods that need one.
        static: directory of static embeddings of the new vocabulary, for methods that need them.
        distilled: directory of distilled embeddings, for methods that need them.
        sides: the sides that get the vocabulary.
        max_similar: the number of similar tokens that `avg` uses.
        seed: of random methods.

    Raises:
        UserError: the method is unknown or its inputs do not match, the model lacks a side, the vocabulary lacks
            special tokens, or the generator was made for another model.
    """
    sides = sides_of(sides)
    whole("max_similar", max_similar, 1)
    whole("seed", seed, 0)
    made = Method(
        method,
        None if generator is None else require_sound(Path(generator)),
        max_similar,
        seed,
        static={} if static is None else dict.fromkeys(sides, require_sound(Path(static))),
        distilled=None if distilled is None else require_sound(Path(distilled)),
    )
    check_method(made)
    target = dict.fromkeys(sides, vocabulary_of(vocabulary))
    old = _copied(model) if isinstance(model, Model) else load(model)
    result = transferred(old.bundle, target, made)
    return Model(result.bundle, old.languages, result.reports)


def _copied(model: Model) -> Model:
    """A copy, because transplanting modifies the model."""
    bundle = model.bundle
    return Model(Bundle(copy.deepcopy(bundle.model), bundle.encoder, bundle.decoder), model.languages)


def check_method(method: Method) -> None:
    """Raise unless the method exists and its inputs are exactly those it needs."""
    facts = initialiser_info(require_known(method.name))
    if (method.generator is not None) != (facts.trained is not None):
        only = ", ".join(names_with("trained"))
        raise ArgumentError(f"{only} need a trained generator, and nothing else takes one", where="generator")
    if bool(method.static) != (facts.static is not None):
        only = ", ".join(names_with("static"))
        raise ArgumentError(
            f"{only} need static embeddings of the new vocabulary, and nothing else takes them",
            where="static",
            hint="`subgraft vocab embed` trains them.",
        )
    if (method.distilled is not None) != (facts.learnt_by is not None):
        only = ", ".join(names_with("learnt_by"))
        raise ArgumentError(
            f"{only} need distilled rows of a vocabulary, and nothing else does",
            where="distilled",
            hint="A run with such a system makes them: steps `token distillation`, `likelihood matching`, `vocadt`.",
        )
