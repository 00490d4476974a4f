"""Stages that allocate one vocabulary to many languages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class CurveStage(Stage):
    """A curve over vocabulary sizes of the training text of the input `corpus`.

    Attributes:
        sizes: The rising sizes at which ALP is measured.
        exact: Whether unigram is trained again at each size.
    """

    stage_name: ClassVar[str] = "curve"
    revision: ClassVar[int] = 1

    kind: Literal["unigram", "bpe"]
    sizes: tuple[int, ...]
    exact: bool

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.allocation.compute import measure_curve

        return measure_curve(self, inputs, out, context)


class AllocationStage(Stage):
    """An allocation; the curve of each language is an input, named after the language.

    Attributes:
        total: Size of the vocabulary, with special tokens.
        codes: Special tokens of the languages.
    """

    stage_name: ClassVar[str] = "allocation"
    revision: ClassVar[int] = 1

    total: int
    language_exponent: float
    capacity_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.allocation.compute import allocate

        return allocate(self, inputs, out, context)


class JointVocabularyStage(Stage):
    """A vocabulary learnt on several languages; the corpus of each is an input, named after the language.

    Attributes:
        lines: The largest number of lines to learn from.
        size: Size of the vocabulary, or the largest below it that the text supports.
    """

    stage_name: ClassVar[str] = "joint-vocabulary"
    revision: ClassVar[int] = 2

    kind: Literal["unigram", "bpe"]
    size: int
    lines: int
    language_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.allocation.compute import learn_joint_vocabulary

        return learn_joint_vocabulary(self, inputs, out, context)


class CapacityStage(Stage):
    """A vocabulary's capacity for each language, whose corpus is an input named after the language.

    The vocabulary is the input `vocabulary`, or a user's own one.

    Attributes:
        digest: Of a user's vocabulary; None if a step makes the vocabulary.
        place: The path of a user's vocabulary.
    """

    stage_name: ClassVar[str] = "capacity"
    revision: ClassVar[int] = 2

    digest: str | None = None
    place: Path | None = Field(default=None, exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.allocation.compute import measure_capacity

        return measure_capacity(self, inputs, out, context)


class AllocationReportStage(Stage):
    """The report of an allocation; inputs are `curve/LANGUAGE`, `allocation/TOTAL` and `capacity/VOCABULARY`.

    Attributes:
        compared: For each total, the names of the compared vocabularies, the allocated one first.
    """

    stage_name: ClassVar[str] = "allocation-report"
    revision: ClassVar[int] = 1

    name: str
    languages: tuple[str, ...]
    totals: tuple[int, ...]
    compared: dict[str, tuple[str, ...]]

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.allocation.compute import report_allocation

        return report_allocation(self, inputs, out, context)
