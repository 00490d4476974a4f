"""Transfer: a model with a new vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.initialisers import DonorMapping
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.donor_model import Donor
from subgraft.embeddings.methods.registry import method_spec, names_with
from subgraft.embeddings.transplanting.new_languages import add_languages, with_codes_of
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.interfaces.api.arguments import new_languages_of, one_of, require_sound, require_whole, sides_of
from subgraft.interfaces.api.model import Model, load
from subgraft.interfaces.api.vocabularies import VocabularyLike, vocabulary_of, warn_of
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.compute.transfer import transfer_bundle
from subgraft.subwords.vocabulary.lost_text import lost_probes
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def transfer(
    model: Model | Path | str,
    vocabulary: VocabularyLike,
    *,
    method: str = "mean",
    generator: Path | str | None = None,
    static: Path | str | None = None,
    distilled: Path | str | None = None,
    donor: Model | Path | str | None = None,
    mapping: str = "omp",
    atoms: int | None = None,
    ridge: float | None = None,
    sides: Sequence[SideName] = ("decoder",),
    max_similar: int = 10,
    seed: int = 1,
    new_languages: Mapping[str, str] = MappingProxyType({}),
) -> Model:
    """The model with a new vocabulary, as `subgraft transfer` makes it; everything else is unchanged.

    A warning names kinds of text, such as tabs, that the new vocabulary changes and the old one gives back.

    Args:
        model: a model, a directory or a hub id. A `Model` is copied, not modified.
        vocabulary: the new vocabulary; of a model, each side gets the vocabulary of that model's side.
        method: the initialiser of new tokens, see docs/guide-experiments.md.
        generator: directory of a trained generator, for methods that need one.
        static: directory of static embeddings of the new vocabulary, for methods that need them.
        distilled: directory of distilled embeddings, for methods that need them.
        donor: a model that has the new tokens, for method `donor`; by default the model whose vocabulary it is.
        mapping: how its embeddings are mapped: `omp`, combinations of shared tokens; or `linear`, an affine map.
        atoms: the number of shared tokens in a combination of `omp`, 64 by default.
        ridge: of `linear`; by default the one with the least error on shared tokens left out of the fit.
        sides: the sides that get the vocabulary.
        max_similar: the number of similar tokens that `avg` uses.
        seed: of random methods.
        new_languages: languages that the model has no code for, each with the initialiser of its code's embedding:
            `mean` of the other codes', `random-matched`, or the language whose code's is copied.

    Raises:
        UserError: the method is unknown or its inputs do not match, the model lacks a side, the vocabulary lacks
            special tokens, the generator was made for another model, the donor shares no token with this one, or a
            new language has a code already or gets none.
    """
    sides = sides_of(sides)
    require_whole("max_similar", max_similar, 1)
    require_whole("seed", seed, 0)
    initialiser = Method(
        method,
        None if generator is None else require_sound(Path(generator)),
        max_similar,
        seed,
        static={} if static is None else dict.fromkeys(sides, require_sound(Path(static))),
        distilled=None if distilled is None else require_sound(Path(distilled)),
        donor=_donor(method, vocabulary, donor, _mapping(mapping, atoms, ridge)),
    )
    check_method(initialiser)
    code_initialisers = new_languages_of(new_languages)
    target = {side: vocabulary_of(vocabulary, side) for side in sides}
    old = _copy(model) if isinstance(model, Model) else load(model)
    vocabularies = {side: tokenizer.fingerprint for side, tokenizer in old.bundle.tokenizers.items()}
    original = old.original or ({"model": old.source, "vocabularies": vocabularies} if old.source else {})
    bundle = with_new_languages(old.bundle, code_initialisers, seed)
    target = {
        side: with_codes_of(tokenizer, bundle.tokenizers[side], code_initialisers)
        if side in bundle.tokenizers
        else tokenizer
        for side, tokenizer in target.items()
    }
    present = [side for side in target if side in bundle.tokenizers]
    for message in dict.fromkeys(lost_probes(bundle.tokenizers[side], target[side]) for side in present):
        warn_of(message)
    result = transfer_bundle(bundle, target, initialiser)
    return replace(old, bundle=result.bundle, reports=result.reports, source="", original=original)


def with_new_languages(bundle: Bundle, languages: Mapping[str, str], seed: int) -> Bundle:
    """As `add_languages`; a refusal names the argument."""
    try:
        return add_languages(bundle, languages, seed)
    except UserError as error:
        raise ArgumentError(error.what, where="new_languages", hint=error.hint) from error


def _donor(
    method: str, vocabulary: VocabularyLike, donor: Model | Path | str | None, mapping: DonorMapping
) -> Donor | None:
    """The donor of a method that needs one: the model named, or the one whose vocabulary it is."""
    if not method_spec(method).donor:
        if donor is not None or mapping != DonorMapping():
            only = ", ".join(names_with("donor"))
            raise ArgumentError(f"{only} needs a donor, and nothing else takes one or its mapping", where="donor")
        return None
    model = vocabulary if donor is None else donor
    if isinstance(model, Tokenizer):
        hint = "Give a model that has the new tokens."
        raise ArgumentError("a vocabulary has no embeddings that could be mapped", where="donor", hint=hint)
    try:
        loaded = model if isinstance(model, Model) else load(model)
    except UserError as error:
        hint = error.hint if donor is not None else "The new vocabulary's model is the donor unless another is named."
        raise UserError(f"the donor cannot be used: {error.what}", where=error.where, hint=hint) from error
    return Donor.of(loaded.bundle, mapping, "donor" if isinstance(model, Model) else str(model))


def _mapping(mapping: str, atoms: int | None, ridge: float | None) -> DonorMapping:
    """Raises ArgumentError for settings that no mapping has."""
    one_of("mapping", mapping, ("omp", "linear"))
    require_whole("atoms", atoms, 1, optional=True)
    try:
        return DonorMapping.model_validate(
            {"mapping": mapping, "ridge": ridge} | ({} if atoms is None else {"atoms": atoms})
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = str((*first["loc"], "mapping")[0])
        raise ArgumentError(first["msg"].removeprefix("Value error, "), where=where) from None


def _copy(model: Model) -> Model:
    """A copy, as the transfer modifies its model."""
    bundle = model.bundle
    return replace(model, bundle=replace(bundle, model=copy.deepcopy(bundle.model)), reports={})


def check_method(method: Method) -> None:
    """Raise unless the method exists and its inputs are exactly those it needs."""
    facts = method_spec(method.name)
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
    if (method.distilled is not None) != (facts.learning is not None):
        only = ", ".join(names_with("learning"))
        steps = [f"`{name.replace('-', ' ')}`" for name in names_with("learning")]
        raise ArgumentError(
            f"{only} need distilled rows of a vocabulary, and nothing else does",
            where="distilled",
            hint=f"A run with such a system makes them, in the step {' or '.join(steps)}.",
        )
