"""Steps that import, extend and trim vocabularies."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from subgraft.base.errors import UserError
from subgraft.config.domains import UpstreamSettings
from subgraft.config.settings_base import SideName, TextSide
from subgraft.config.vocabularies import TaskVocabularySettings
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.vocabularies import AdaptedVocabularyRecipe, ImportedVocabularyRecipe
from subgraft.subwords.allocation.result import RECORD, Allocated
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_WHERE = "upstream.given_vocabulary"


def imported_vocabulary_step(
    place: Path, *, codes: Collection[str], mask: bool, named: str
) -> Step[ImportedVocabularyRecipe]:
    """named: what the configuration calls it.  codes, mask: special tokens that the model needs.

    Raises UserError where it is not there, or lacks one of them.
    """
    if not place.is_dir():
        raise UserError("no such directory", where=f"{_WHERE}: {place}", hint="Give the directory of a vocabulary.")
    tokenizer = Tokenizer.load(place)
    missing = [code for code in codes if code not in tokenizer.languages]
    if missing:
        hint = "Allocate with language_codes: true, over all languages of upstream and downstream text."
        raise UserError(f"it has no token {missing[0]}", where=f"{_WHERE}: {place}", hint=hint)
    if mask and "mask" not in tokenizer.special:
        raise UserError("it has no mask token, which the objective needs", where=f"{_WHERE}: {place}")
    recipe = ImportedVocabularyRecipe(digest=vocabulary_digest(tokenizer), place=place)
    return Step(stages.IMPORTED_VOCABULARY, f"vocabulary {named}", recipe)


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """SHA-256 over what a vocabulary is and how it cuts, wherever it lies."""
    return hashlib.sha256(f"{tokenizer.fingerprint} {tokenizer.digest}".encode()).hexdigest()


def language_exponent(upstream: UpstreamSettings, base: Path) -> float | None:
    """By which upstream languages are drawn: as the configuration says, or else as the given vocabulary was allocated.

    base: where relative paths begin. None takes all text as it is.
    """
    if upstream.language_exponent is not None or upstream.given_vocabulary is None:
        return upstream.language_exponent
    place = base / upstream.given_vocabulary
    paired = any(objective.needs_pairs for objective in upstream.objectives)
    if paired or not (place / RECORD).is_file():
        return None
    return Allocated.read(place).language_exponent


# The upstream vocabularies, extended or trimmed by the task's text, as steps.
#
# What a text has once is no subword to add; what it never has can go.
LEAST_ADDED, LEAST_KEPT = 2, 1


def adapted_vocabulary_step(
    settings: TaskVocabularySettings,
    side: SideName,
    text: TextSide | Literal["both"],
    inputs: Mapping[str, Step],
) -> Step[AdaptedVocabularyRecipe]:
    """The vocabulary of a side of the upstream model, by one text of the task or by both.

    inputs: the task's `corpus`, the upstream `vocabulary` or `model`, and further `text`, if any.
    """
    extends = settings.mode == "extend"
    recipe = AdaptedVocabularyRecipe(
        side=text,
        model_side=side,
        added=settings.size if extends else None,
        min_count=settings.min_count or (LEAST_ADDED if extends else LEAST_KEPT),
    )
    whose = "model" if text == "both" else side
    name = f"vocabulary of the {whose}, {'extended' if extends else 'trimmed'} by {inputs['corpus'].name}"
    return Step(stages.ADAPTED_VOCABULARY, name, recipe, inputs)
