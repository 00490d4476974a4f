"""The settings of a hyperparameter search: what is varied in one row of an experiment, how, and to what end."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from subgraft.settings.base import Seed, Settings
from subgraft.settings.rows import Row

T = TypeVar("T")
GeneratorKind = Literal["avg", "att", "patt"]
Objective = Literal["dev_bleu", "sentences_per_second"]
# Kinds of generator that have something to train.
TRAINED: tuple[GeneratorKind, ...] = ("att", "patt")


class Range(Settings):
    """Any number from min to max; log: drawn by its logarithm."""

    min: Annotated[float, Field(ge=0)]
    max: float
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.min >= self.max:
            raise ValueError(f"min {self.min:g} must be below max {self.max:g}")
        if self.log and self.min == 0:
            raise ValueError("with log, min must be above 0")
        return self


def _some_distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise ValueError("give at least one value")
    if len(set(values)) != len(values):
        raise ValueError("values must be distinct")
    return values


Choices: TypeAlias = Annotated[tuple[T, ...], AfterValidator(_some_distinct)]
# Told apart by their form, so that a mistake in one is not told as two.
Weights: TypeAlias = Annotated[
    Annotated[Range, Tag("range")] | Annotated[Choices[Annotated[float, Field(ge=0)]], Tag("list")],
    Discriminator(lambda given: "list" if isinstance(given, tuple) else "range"),
]


class SearchSpace(Settings):
    """What is varied: fields of the row, each a list to choose from; kd_weight may be a range.

    What a trial does not need it is not asked: avg has neither kd_weight nor generator_steps.
    """

    initialiser: Choices[GeneratorKind] | None = None
    kd_weight: Weights | None = None
    vocabulary_size: Choices[Annotated[int, Field(ge=50)]] | None = None
    generator_steps: Choices[Annotated[int, Field(ge=1)]] | None = None

    @property
    def varied(self) -> dict[str, Range | tuple[Any, ...]]:
        """What there is to choose from, by the row's field."""
        return {name: choices for name in type(self).model_fields if (choices := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _something(self) -> SearchSpace:
        if not self.varied:
            raise ValueError(f"give at least one of {', '.join(type(self).model_fields)}")
        return self


class HalvingSettings(Settings):
    """ASHA (Li et al. 2020): a finetuning whose best dev BLEU is behind that of others as far as it is stopped.

    grace_evaluations: after how many dev scores the first decision falls; the next at reduction_factor times as many.
    reduction_factor: about one trial in so many goes on.
    """

    grace_evaluations: Annotated[int, Field(ge=1)] = 1
    reduction_factor: Annotated[float, Field(gt=1)] = 3.0


class SearchSettings(Settings):
    """A search around one row. Its trials run under the experiment's first seed and are judged on dev alone.

    row: which row is varied; the others take no part.  trials: in all, those of earlier invocations included.
    concurrent: so many at a time, as far as the machine has room for their steps.  asha: null for no stopping.
    """

    row: str
    space: SearchSpace
    trials: Annotated[int, Field(ge=1)] = 20
    sampler: Literal["tpe", "random"] = "tpe"
    seed: Seed = 1
    concurrent: Annotated[int, Field(ge=1)] = 2
    objectives: Choices[Objective] = ("dev_bleu", "sentences_per_second")
    asha: HalvingSettings | None = HalvingSettings()

    @model_validator(mode="after")
    def _stopped_by_what_it_is_judged_by(self) -> SearchSettings:
        if self.asha is not None and "dev_bleu" not in self.objectives:
            raise ValueError("asha goes by dev BLEU: say `asha: null`, or have dev_bleu among objectives")
        return self


def require_searchable(search: SearchSettings, rows: tuple[Row, ...]) -> None:
    """Raises ValueError where the row is not there, or what is to be varied means nothing to it."""
    row = next((row for row in rows if row.name == search.row), None)
    if row is None:
        raise ValueError(f"search.row '{search.row}' is not among rows: {', '.join(row.name for row in rows)}")
    if row.initialiser is None:
        raise ValueError(f"search.row '{row.name}' gets no new rows: a search is about one with an initialiser")
    space = search.space
    kinds = space.initialiser or (row.generator,)
    for name in ("kd_weight", "generator_steps"):
        if getattr(space, name) is not None and not set(kinds) & set(TRAINED):
            raise ValueError(f"search.space.{name} applies to att and patt only, and no trial has either")
