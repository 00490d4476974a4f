"""What a language model is to read, by the corpus of its task and the settings of an experiment."""

from __future__ import annotations

from subgraft.config.conditioning import (
    ClassSourceSettings,
    ConditioningSettings,
    FeatureSourceSettings,
    OwnTextSourceSettings,
    ReadingSettings,
    SourceName,
    SourceSettings,
    TextSourceSettings,
    VariantName,
)
from subgraft.text.classes import class_labels
from subgraft.text.corpus import Corpus
from subgraft.text.features import features_of

# Of a corpus that is not there yet, for what only has to be near: two classes, of any names, and rows of 64 numbers.
_CLASSES, _FEATURES = ("", " "), 64


def conditioning_settings(
    variant: VariantName, source: SourceName, settings: ReadingSettings, corpus: Corpus | None, vocabulary: int
) -> ConditioningSettings:
    """corpus: the task's, where it is there already.  vocabulary: how many tokens a text's tokenizer has."""
    given = _source(variant, source, settings, corpus, vocabulary)
    return ConditioningSettings(variant=variant, source=given, decoder=settings.decoder)


def _source(
    variant: VariantName, source: SourceName, settings: ReadingSettings, corpus: Corpus | None, vocabulary: int
) -> SourceSettings:
    if source == "class":
        classes = _CLASSES if corpus is None else class_labels(corpus).labels
        return ClassSourceSettings(classes=classes, vectors=settings.vectors)
    if source == "features":
        return FeatureSourceSettings(features=_FEATURES) if corpus is None else _features(corpus, variant)
    if variant == "prepend":
        return OwnTextSourceSettings(max_length=settings.max_length)
    encoder = settings.encoder.model_dump()
    return TextSourceSettings(vocabulary=vocabulary, max_length=settings.max_length, **encoder)


def _features(corpus: Corpus, variant: VariantName) -> FeatureSourceSettings:
    """Where they stand before the target, its positions begin behind the longest example of any split."""
    of_splits = [features_of(corpus, split) for split in corpus.splits]
    rows = max(int(features.counts.max()) for features in of_splits) if variant == "prepend" else None
    return FeatureSourceSettings(features=of_splits[0].width, rows=rows)
