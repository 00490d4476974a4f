"""Settings of a hyperparameter search: the system and the fields to vary, how trials are drawn, and the objectives."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from subgraft.base.limits import MAX_VOCABULARY_SIZE, MIN_VOCABULARY_SIZE
from subgraft.config.experiment.systems import System, require_trained_parameters
from subgraft.config.settings_base import Count, Seed, Settings, VocabularyMode
from subgraft.config.training import FinetuneSettings
from subgraft.embeddings.methods.registry import AnyInitialiser, method_spec, names_with

T = TypeVar("T")
Objective = Literal["dev_bleu", "dev_bits_per_character", "dev_score", "sentences_per_second"]
# The objectives that are minimised.
MINIMISED: frozenset[str] = frozenset({"dev_bits_per_character"})
# Fields of every system, even of systems without new rows.
RATES = ("learning_rate", "embedding_learning_rate")
DEFAULT_TRIALS = 20


class Range(Settings):
    """Any number from min to max.

    min: the minimum.
    max: the maximum.
    log: whether values are drawn on a logarithmic scale; min must be above 0.
    """

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


def _require_distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise ValueError("give at least one value")
    if len(set(values)) != len(values):
        raise ValueError("values must be distinct")
    return values


Choices: TypeAlias = Annotated[tuple[T, ...], AfterValidator(_require_distinct)]


def _above_zero(choices: Range | tuple[float, ...]) -> Range | tuple[float, ...]:
    if (choices.min if isinstance(choices, Range) else min(choices)) <= 0:
        raise ValueError("values must be above 0")
    return choices


# The form selects the member of the union, so that a mistake in one is not reported for both.
Weights: TypeAlias = Annotated[
    Annotated[Range, Tag("range")] | Annotated[Choices[Annotated[float, Field(ge=0)]], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, tuple) else "range"),
]
Rates: TypeAlias = Annotated[Weights, AfterValidator(_above_zero)]


class SearchSpace(Settings):
    """The fields of the system to vary, each a list of choices; kd_weight and the rates may be ranges.

    A trial only draws fields that its initialiser uses: avg has neither kd_weight nor generator_steps. A trimmed
    vocabulary has no new tokens, so it has no initialiser either.
    vocabulary_mode: how the upstream vocabulary changes.
    initialiser: the initialiser of new embeddings.
    kd_weight: weights of distillation (λ).
    vocabulary_size: sizes of the downstream vocabulary.
    generator_steps: steps of the generator's training.
    learning_rate: peak learning rates of finetuning.
    embedding_learning_rate: peak learning rates of the embeddings in finetuning.
    """

    vocabulary_mode: Choices[VocabularyMode] | None = None
    initialiser: Choices[AnyInitialiser] | None = None
    kd_weight: Weights | None = None
    vocabulary_size: Choices[Annotated[int, Field(ge=MIN_VOCABULARY_SIZE, le=MAX_VOCABULARY_SIZE)]] | None = None
    generator_steps: Choices[Count] | None = None
    learning_rate: Rates | None = None
    embedding_learning_rate: Weights | None = None

    @property
    def varied(self) -> dict[str, Range | tuple[Any, ...]]:
        """The choices, by field of the system."""
        return {name: choices for name in type(self).model_fields if (choices := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _something(self) -> SearchSpace:
        if not self.varied:
            raise ValueError(f"give at least one of {', '.join(type(self).model_fields)}")
        return self


class HalvingSettings(Settings):
    """ASHA (Li et al. 2020): a finetuning is stopped if its best dev BLEU is behind that of others at the same point.

    grace_evaluations: dev evaluations before the first decision; the next one follows after reduction_factor times as
    many.
    reduction_factor: about one trial in this many continues.
    """

    grace_evaluations: Count = 1
    reduction_factor: Annotated[float, Field(gt=1)] = 3.0


class SearchSettings(Settings):
    """A search around one system, or around each of several. Trials use the first seed and are evaluated on dev only.

    system: the system to vary; the others are ignored.
    systems: several systems, each with as many trials in the same space.
    space: the fields to vary.
    trials: all trials of a system, those of earlier invocations included; a grid has as many as its space has
    combinations.
    sampler: how trials are drawn: by Optuna's TPE, at random, or every combination.
    seed: the seed of the sampler.
    concurrent: trials that run at a time, if the machine has room for their steps.
    objectives: the metrics to optimise; with several, the best trials are the Pareto front.
    asha: how finetunings that fall behind are stopped; null for no stopping.
    """

    system: str | None = None
    systems: Choices[str] | None = None
    space: SearchSpace
    trials: Count | None = None
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    seed: Seed = 1
    concurrent: Count = 2
    objectives: Choices[Objective] = ("dev_bleu", "sentences_per_second")
    asha: HalvingSettings | None = HalvingSettings()

    def each_system(self) -> list[SearchSettings]:
        """A search around one system for each of the systems."""
        names = self.systems or (self.system,)
        return [self.model_copy(update={"system": name, "systems": None}) for name in names]

    @model_validator(mode="after")
    def _consistent(self) -> SearchSettings:
        if (self.system is None) == (self.systems is None):
            raise ValueError("give exactly one of system, systems")
        if self.sampler == "grid" and self.trials is not None:
            raise ValueError("a grid has as many trials as its space has combinations: leave out trials")
        ranges = [name for name, choices in self.space.varied.items() if isinstance(choices, Range)]
        if self.sampler == "grid" and ranges:
            raise ValueError(f"a grid needs lists: space.{ranges[0]} is a range")
        if self.asha is not None and "dev_bleu" not in self.objectives:
            raise ValueError("asha compares dev BLEU: write `asha: null`, or add dev_bleu to objectives")
        return self


def require_searchable(search: SearchSettings, systems: tuple[System, ...], training: FinetuneSettings) -> None:
    """Raise ValueError if a system does not exist, or does not have the fields to vary."""
    by_name = {system.name: system for system in systems}
    for single in search.each_system():
        if single.system not in by_name:
            where = "system" if search.systems is None else "systems"
            raise ValueError(f"search.{where} '{single.system}' is not among systems: {', '.join(by_name)}")
        _require_applicable(search.space, by_name[single.system], training)


def _require_applicable(space: SearchSpace, system: System, training: FinetuneSettings) -> None:
    inapplicable = [name for name in space.varied if name not in RATES]
    if system.initialiser is None and inapplicable:
        raise ValueError(
            f"search.system '{system.name}' has no new rows: only {' and '.join(RATES)} can be varied, not "
            f"{', '.join(inapplicable)}"
        )
    trained = [method_spec(name).trained for name in space.initialiser or (system.generator,)]
    for name in ("kd_weight", "generator_steps"):
        if getattr(space, name) is not None and not any(trained):
            names = ", ".join(names_with("trained"))
            raise ValueError(f"search.space.{name} applies to {names} only, and no trial has one of them")
    if system.donor is None and any(method_spec(name).donor for name in space.initialiser or ()):
        raise ValueError(f"search.space.initialiser has donor, which system '{system.name}' needs a `donor` for")
    for varied in _with_extreme_rates(space, system):
        require_trained_parameters(varied, training)


def _with_extreme_rates(space: SearchSpace, system: System) -> list[System]:
    """The system with the lowest and the highest learning rate of its embeddings that a trial may draw."""
    rates = space.embedding_learning_rate
    if rates is None:
        return [system]
    extremes = (rates.min, rates.max) if isinstance(rates, Range) else (min(rates), max(rates))
    return [system.model_copy(update={"embedding_learning_rate": rate}) for rate in extremes]
