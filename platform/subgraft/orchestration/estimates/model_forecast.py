"""The model that a step will make or train: its configuration and number of parameters, before it exists."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.conditioning.source_settings import conditioning_settings, pretrained_source
from subgraft.modeling.families import (
    Parameters,
    as_both_sides,
    config_dict,
    count_parameters,
    family_of,
    vocabulary_sizes,
    with_next_sentence,
    with_vocabularies,
)
from subgraft.modeling.families.conditional import with_source
from subgraft.modeling.hub import read_config, resolve_model
from subgraft.modeling.tokenizers import load_tokenizers, with_languages
from subgraft.orchestration.estimates.memory_estimate import Dimensions
from subgraft.orchestration.estimates.workload import known_tokenizer
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.vocabularies import AdaptedVocabularyStage, ImportedVocabularyStage, VocabularyStage
from subgraft.subwords.vocabulary.alignment import new_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.stage import (
    ExtraParameters,
    FromCheckpoint,
    FromSettings,
    ModelChange,
    OnBothSides,
    Unchanged,
    WithContext,
    WithNextSentence,
    WithSource,
    WithSourceEncoder,
    WithVocabularies,
)

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step
    from subgraft.training.stage import TrainedStage

Config = Mapping[str, Any]


def model_config(store: Store, step: Step) -> Config:
    """config.json of the model that a step makes; before it runs, only the fields on which parameter counts depend."""
    if store.find(step) is not None:
        return read_config(store.path(step))
    return _config_after(store, step, step.stage.model_change)


def _config_after(store: Store, step: Step, change: ModelChange) -> Config:
    match change:
        case FromCheckpoint(checkpoint, new_languages):
            return _with_codes(read_config(resolve_model(checkpoint)), checkpoint, new_languages)
        case FromSettings(settings):
            return config_dict(settings, *(vocabulary_size(store, step, side) for side in ("encoder", "decoder")))
        case OnBothSides():
            return as_both_sides(model_config(store, step.inputs["model"]))
        case WithVocabularies(sides):
            new = {side: vocabulary_size(store, step, f"vocabulary/{side}") for side in sides}
            return with_vocabularies(model_config(store, step.inputs["model"]), new)
        case WithSource(variant, source, settings, copying):
            size = vocabulary_size(store, step, "encoder") if "encoder" in step.inputs else 1
            source_step = step.inputs.get("reader")
            reader = pretrained_source(model_config(store, source_step), settings.max_length) if source_step else None
            conditioning = conditioning_settings(variant, source, settings, _corpus(store, step), size, reader, copying)
            return with_source(model_config(store, step.inputs["model"]), conditioning)
        case WithNextSentence(before):
            return with_next_sentence(_config_after(store, step, before))
        case WithSourceEncoder(layers):
            model = model_config(store, step.inputs["model"])
            return family_of(model).with_source_encoder(model, layers, vocabulary_size(store, step, "encoder"))
        case WithContext(sentences):
            model = model_config(store, step.inputs["model"])
            return family_of(model).with_context(model, sentences, 0)
        case Unchanged():
            return model_config(store, step.inputs["model"])
        case _:
            assert_never(change)


def _with_codes(config: Config, checkpoint: str, languages: Mapping[str, str]) -> Config:
    """config.json of a checkpoint with codes for more languages, which first use rows beyond its vocabulary."""
    if not languages:
        return config
    tokenizers, sizes = with_languages(load_tokenizers(checkpoint), languages), vocabulary_sizes(config)
    sizes_with_codes = {side: max(rows, len(tokenizers[side])) for side, rows in sizes.items()}
    if len(set(sizes_with_codes.values())) > 1:
        return with_vocabularies(config, sizes_with_codes)
    names = {"vocab_size", "decoder_vocab_size"} & config.keys()
    return {**config, **dict.fromkeys(names, sizes_with_codes["decoder"])}


def trained_model(store: Store, step: Step[TrainedStage]) -> Config:
    """config.json of the model that a training holds: its input `model`, or the one that it makes."""
    makes_model = "model" not in step.inputs or isinstance(step.stage.model_change, WithNextSentence)
    return model_config(store, step if makes_model else step.inputs["model"])


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


def _corpus(store: Store, step: Step) -> Corpus | None:
    corpus = step.inputs["corpus"]
    return Corpus.open(store.path(corpus)) if store.find(corpus) is not None else None


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

    def tables(self, role: str) -> Mapping[SideName, int]:
        return vocabulary_sizes(model_config(self.store, self.step.inputs[role]))

    def adapters(self, rank: int) -> int:
        projections = family_of(self.model).projections(self.model)
        return sum(rank * (projection.inputs + projection.outputs) * projection.times for projection in projections)

    def new_rows(self, sides: Collection[SideName], copy_shared_tokens: bool) -> ExtraParameters:
        total = new = 0
        sizes = vocabulary_sizes(self.model)
        counts = {side: self._new_tokens(side, copy_shared_tokens) for side in sides}
        for table in family_of(self.model).table_sizes(self.model):
            if table_sides := sorted(table.sides & set(sides)):
                first = table_sides[0]
                new_count = counts[first]
                total += table.numbers
                new += table.numbers // sizes[first] * (sizes[first] if new_count is None else new_count)
        return ExtraParameters(held=total + new, trained=new, exact=None not in counts.values())

    def _new_tokens(self, side: SideName, copy_shared_tokens: bool) -> int | None:
        """None if one of the vocabularies is not known yet."""
        upstream, own = (known_tokenizer(self.store, self.step.inputs[role], side) for role in ("upstream", "model"))
        return None if upstream is None or own is None else len(new_tokens(upstream, own, copy_shared_tokens))


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
