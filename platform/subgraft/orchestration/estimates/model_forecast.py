"""The model that a step will make or train: its configuration and number of parameters, before it exists."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.families import (
    Config,
    Parameters,
    count_parameters,
    family_of,
    vocabulary_sizes,
)
from subgraft.modeling.hub import read_config
from subgraft.orchestration.estimates.memory_estimate import Dimensions
from subgraft.orchestration.estimates.workload import known_tokenizer
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.vocabularies import AdaptedVocabularyStage, ImportedVocabularyStage, VocabularyStage
from subgraft.subwords.vocabulary.alignment import new_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.stage import ExtraParameters

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step
    from subgraft.training.stage import TrainedStage


def model_config(store: Store, step: Step) -> Config:
    """config.json of the model that a step makes; before it runs, only the entries that families need."""
    if store.find(step) is not None:
        return read_config(store.path(step))
    return step.stage.config_after(_Known(store, step))


def trained_model(store: Store, step: Step[TrainedStage]) -> Config:
    """config.json of the model that a training holds, without what is added to it while it is trained."""
    return step.stage.config_after(_Known(store, step))


@dataclass(frozen=True)
class _Known:
    """What the store and the plan know of a step's inputs (see `KnownInputs`)."""

    store: Store
    step: Step

    def __contains__(self, role: str) -> bool:
        return role in self.step.inputs

    def config(self, role: str) -> Config:
        return model_config(self.store, self.step.inputs[role])

    def vocabulary_size(self, role: str) -> int:
        return vocabulary_size(self.store, self.step, role)

    @property
    def corpus(self) -> Corpus | None:
        corpus = self.step.inputs["corpus"]
        return Corpus.open(self.store.path(corpus)) if self.store.find(corpus) is not None else None


def vocabulary_size(store: Store, step: Step, role: str) -> int:
    """The number of tokens of a step's input vocabulary, known or planned."""
    vocabulary = step.inputs[role]
    record = store.find(vocabulary)
    if record is not None:
        return int(record.summary["size"])
    if isinstance(vocabulary.stage, ImportedVocabularyStage):
        return len(Tokenizer.load(vocabulary.stage.place))
    if isinstance(vocabulary.stage, AdaptedVocabularyStage):
        return _upstream_size(store, vocabulary, vocabulary.stage.model_side) + (vocabulary.stage.added or 0)
    return step.input(role, VocabularyStage).stage.settings.size


def _upstream_size(store: Store, adapted: Step, side: SideName) -> int:
    """The size of the upstream vocabulary, an upper bound of the tokens that an adapted one retains."""
    if "vocabulary" in adapted.inputs:
        return vocabulary_size(store, adapted, "vocabulary")
    return vocabulary_sizes(model_config(store, adapted.inputs["model"]))[side]


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a training step's inputs (see `KnownSizes`)."""

    store: Store
    step: Step[TrainedStage]
    model: Config

    @property
    def width(self) -> int:
        return Dimensions.of(self.model).embeddings

    @property
    def tied(self) -> bool:
        return bool(self.model.get("tie_word_embeddings", True))

    def vocabulary(self, side: SideName) -> int:
        return vocabulary_size(self.store, self.step, f"vocabulary/{side}")

    def new_tokens(self, side: SideName) -> int:
        stage = self.step.inputs[f"vocabulary/{side}"].stage
        return (stage.added or 0) if isinstance(stage, AdaptedVocabularyStage) else self.vocabulary(side)

    def tables(self, role: str) -> Mapping[SideName, int]:
        return vocabulary_sizes(model_config(self.store, self.step.inputs[role]))

    def adapters(self, rank: int) -> int:
        projections = family_of(self.model).projections(self.model)
        return sum(rank * (projection.inputs + projection.outputs) * projection.times for projection in projections)

    def new_rows(self, sides: Collection[SideName], copy_shared_tokens: bool) -> ExtraParameters:
        total = new = 0
        sizes = vocabulary_sizes(self.model)
        counts = dict[SideName, int | None]()  # None if one of the vocabularies is not known yet
        for side in sides:
            roles = (self.step.inputs[role] for role in ("upstream", "model"))
            upstream, own = (known_tokenizer(self.store, role, side) for role in roles)
            known = None if upstream is None or own is None else new_tokens(upstream, own, copy_shared_tokens)
            counts[side] = None if known is None else len(known)
        for table in family_of(self.model).table_sizes(self.model):
            if table_sides := sorted(table.sides & set(sides)):
                first = table_sides[0]
                new_count = counts[first]
                total += table.numbers
                new += table.numbers // sizes[first] * (sizes[first] if new_count is None else new_count)
        return ExtraParameters(held=total + new, trained=new, exact=None not in counts.values())


class ParameterForecast(NamedTuple):
    """Parameters that a training holds in memory; if not `exact`, they are upper bounds."""

    parameters: Parameters
    exact: bool


def training_parameters(store: Store, step: Step[TrainedStage]) -> ParameterForecast:
    """The parameters that a training step holds in memory, and how many of them are trained."""
    stage, config = step.stage, trained_model(store, step)
    model = count_model_parameters(config, stage.frozen_embedding_sides)
    extra = stage.extra_parameters(_Sizes(store, step, config))
    trained = extra.trained + (model.trained if stage.trains_model else 0)
    return ParameterForecast(Parameters(model.total + extra.held, trained), extra.exact)


def count_model_parameters(config: Config, frozen: tuple[SideName, ...] = ()) -> Parameters:
    """Parameters of the model that a config.json describes; cached."""
    return _count_cached(json.dumps(dict(config), sort_keys=True, default=str), frozen)


@lru_cache(maxsize=64)
def _count_cached(config: str, frozen: tuple[SideName, ...]) -> Parameters:
    return count_parameters(json.loads(config), frozen)
