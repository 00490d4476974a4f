"""Recipes of the stages that allocate one vocabulary to many languages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from subgraft.pipeline.recipes.recipe import Recipe


class CurveRecipe(Recipe):
    """Of the training text of the input `corpus`.

    sizes: at which ALP is measured, rising.  exact: unigram is trained anew at each.
    """

    kind: Literal["unigram", "bpe"]
    sizes: tuple[int, ...]
    exact: bool


class AllocationRecipe(Recipe):
    """The curve of each language is an input, named after the language.

    total: of everything in the vocabulary.  codes: special tokens of the languages.
    """

    total: int
    language_exponent: float
    capacity_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]


class JointVocabularyRecipe(Recipe):
    """The corpus of each language is an input, named after the language.

    lines: the most that it is learnt on.  size: of everything, or the largest below it that the text can give.
    """

    kind: Literal["unigram", "bpe"]
    size: int
    lines: int
    language_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]


class CapacityRecipe(Recipe):
    """What a vocabulary has for each language: an input `vocabulary`, or a user's own, by its digest.

    digest: of a vocabulary that no step made, left out of the fingerprint where one did; place: where that lies.
    The corpus of each language is an input, named after the language.
    """

    digest: str | None = Field(default=None, exclude_if=lambda given: given is None)
    place: Path | None = Field(default=None, exclude=True)


class AllocationReportRecipe(Recipe):
    """Inputs: `curve/LANGUAGE`, `allocation/TOTAL`, and what was measured: `capacity/VOCABULARY`.

    compared: of each total the names of the vocabularies that are compared, the allocated one first.
    """

    name: str
    languages: tuple[str, ...]
    totals: tuple[int, ...]
    compared: dict[str, tuple[str, ...]]
