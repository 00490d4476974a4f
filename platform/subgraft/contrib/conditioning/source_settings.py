"""The settings of a model's source, from the corpus of its task and the settings of an experiment."""

from __future__ import annotations

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus, class_labels
from subgraft.data.text.features import features_of
from subgraft.modeling.conditioning import settings as conditioning
from subgraft.modeling.conditioning.settings import CopyingName, ReadingSettings, SourceName
from subgraft.modeling.conditioning.variants.registry import VARIANTS, VariantName
from subgraft.modeling.families import Config, Parameters, SequenceFormat, count_parameters, family_of

# Estimates for a corpus that does not exist yet: two classes with any names, and rows of 64 numbers.
_CLASSES, _FEATURES = ("", " "), 64


def conditioning_settings(
    variant: VariantName,
    source: SourceName,
    settings: ReadingSettings,
    corpus: Corpus | None,
    vocabulary: int,
    reader: conditioning.PretrainedTextSourceSettings | None = None,
    copying: CopyingName | None = None,
) -> conditioning.ConditioningSettings:
    """The conditioning settings of a model.

    Args:
        variant: The way of reading the source.
        source: The kind of source.
        settings: The experiment's settings of conditioning.
        corpus: The task's corpus, if it exists already.
        vocabulary: The size of the source text's vocabulary.
        reader: The source of a pretrained encoder, if there is one.
        copying: The kind of copying, if any.
    """
    source_settings = reader or _source(variant, source, settings, corpus, vocabulary)
    threshold = settings.copy_threshold if copying == "bottom-up" else None
    copies = None if copying is None else conditioning.CopyingSettings(kind=copying, threshold=threshold)
    return conditioning.ConditioningSettings(
        variant=variant, source=source_settings, decoder=settings.decoder, copying=copies
    )


def _source(
    variant: VariantName, source: SourceName, settings: ReadingSettings, corpus: Corpus | None, vocabulary: int
) -> conditioning.SourceSettings:
    if source == "class":
        classes = _CLASSES if corpus is None else class_labels(corpus).labels
        return conditioning.ClassSourceSettings(classes=classes, vectors=settings.vectors)
    if source == "features":
        return conditioning.FeatureSourceSettings(features=_FEATURES) if corpus is None else _features(corpus, variant)
    if VARIANTS[variant].in_input:
        return conditioning.TrainedTextSourceSettings(max_length=settings.max_length)
    if settings.shared_vocabulary:
        return conditioning.TrainedTextSourceSettings(max_length=settings.max_length, encoder=settings.encoder)
    encoder = settings.encoder.model_dump()
    return conditioning.TextSourceSettings(vocabulary=vocabulary, max_length=settings.max_length, **encoder)


def pretrained_source(
    config: Config, max_length: int, form: SequenceFormat | None = None, parameters: Parameters | None = None
) -> conditioning.PretrainedTextSourceSettings:
    """The settings of a text source that the encoder of a pretrained model reads.

    Args:
        config: config.json of the model.
        max_length: The maximum length of a source in tokens.
        form: The special tokens around a source.
        parameters: The encoder's; by default, before it is loaded, its share of the model's layers.

    Raises:
        UserError: The model has no encoder, or is not a class of transformers.
    """
    family = family_of(config)
    if "encoder" not in family.sides or not family.lends_encoder:
        hint = "Take an encoder-decoder, or an encoder, of a type that transformers knows."
        raise UserError(f"a {family.model_type} model has no encoder that can be taken out of it", hint=hint)
    if parameters is None:
        own, other = (family.layers(config, side) for side in ("encoder", "decoder"))
        share = count_parameters(config).total * own // max(1, own + other)
        parameters = Parameters(share, share)
    limit = family.position_limit(config) or max_length
    return conditioning.PretrainedTextSourceSettings(
        model=dict(config),
        width=family.width(config),
        parameters=parameters.total,
        fixed=parameters.total - parameters.trained,
        max_length=min(max_length, limit),
        beginning=form.source_beginning if form else (),
        ending=form.source_ending if form else (),
    )


def _features(corpus: Corpus, variant: VariantName) -> conditioning.FeatureSourceSettings:
    """The settings of a feature source; `prepend` needs the maximum number of rows in any split."""
    of_splits = [features_of(corpus, split) for split in corpus.splits]
    rows = max(int(features.counts.max()) for features in of_splits) if VARIANTS[variant].in_input else None
    return conditioning.FeatureSourceSettings(features=of_splits[0].width, rows=rows)
