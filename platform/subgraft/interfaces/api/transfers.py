"""A model that is given another vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

from subgraft.base.errors import ArgumentError
from subgraft.config.initialiser_registry import initialiser_info, names_with
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.registry import require_known
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.interfaces.api.arguments import sides_of, whole
from subgraft.interfaces.api.models import Model, load
from subgraft.interfaces.api.vocabularies import VocabularyLike, vocabulary_of
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.tracking.artifact_inputs import require_sound
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
    """The model with another vocabulary, as `subgraft transfer` makes it; nothing else of it is another.

    method: what new tokens start as, by the names of docs/guide.md.  generator, static, distilled: the directories that
    some methods need, of a trained generator, of static embeddings of the new vocabulary, and of distilled rows.
    sides: those that get it.  max_similar: of avg.  seed: of methods that draw.

    Raises UserError for an unknown method, one that is not given just what it needs, a side that the model does not
    have, special tokens that the vocabulary lacks, and a generator made for another model.
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
    _check(made)
    target = dict.fromkeys(sides, vocabulary_of(vocabulary))
    given = _copied(model) if isinstance(model, Model) else load(model)
    result = transferred(given.bundle, target, made)
    return Model(result.bundle, given.languages, result.reports)


def _copied(model: Model) -> Model:
    """Transplanting uses a model up."""
    bundle = model.bundle
    return Model(Bundle(copy.deepcopy(bundle.model), bundle.encoder, bundle.decoder), model.languages)


def _check(method: Method) -> None:
    """Whether the method is there, and given what it needs and nothing else."""
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
