"""Recipes of the stages that allocate one vocabulary to many languages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from subgraft.pipeline.recipes.recipe import Recipe


class CurveRecipe(Recipe):
    """A curve over vocabulary sizes of the training text of the input `corpus`.

    Attributes:
        sizes: The rising sizes at which ALP is measured.
        exact: Whether unigram is trained again at each size.
    """

    kind: Literal["unigram", "bpe"]
    sizes: tuple[int, ...]
    exact: bool


class AllocationRecipe(Recipe):
    """An allocation; the curve of each language is an input, named after the language.

    Attributes:
        total: Size of the vocabulary, with special tokens.
        codes: Special tokens of the languages.
    """

    total: int
    language_exponent: float
    capacity_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]


class JointVocabularyRecipe(Recipe):
    """A vocabulary learnt on several languages; the corpus of each is an input, named after the language.

    Attributes:
        lines: The largest number of lines to learn from.
        size: Size of the vocabulary, or the largest below it that the text supports.
    """

    kind: Literal["unigram", "bpe"]
    size: int
    lines: int
    language_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]


class CapacityRecipe(Recipe):
    """A vocabulary's capacity for each language, whose corpus is an input named after the language.

    The vocabulary is the input `vocabulary`, or a user's own one.

    Attributes:
        digest: Of a user's vocabulary; None if a step makes the vocabulary.
        place: The path of a user's vocabulary.
    """

    digest: str | None = None
    place: Path | None = Field(default=None, exclude=True)


class AllocationReportRecipe(Recipe):
    """The report of an allocation; inputs are `curve/LANGUAGE`, `allocation/TOTAL` and `capacity/VOCABULARY`.

    Attributes:
        compared: For each total, the names of the compared vocabularies, the allocated one first.
    """

    name: str
    languages: tuple[str, ...]
    totals: tuple[int, ...]
    compared: dict[str, tuple[str, ...]]
