"""Settings of a language model that reads a source: how it reads it, and the kind of source."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH, MAX_VOCABULARY_SIZE
from subgraft.config.settings_base import Settings
from subgraft.config.vocabularies import VocabularySettings
from subgraft.modeling.conditioning.variants.registry import VARIANTS, VariantName
from subgraft.modeling.conditioning.variants.variant import Layers, StackSettings, Width

# The kind of a task's source.
SourceName = Literal["class", "text", "features"]
# How a model copies tokens of its source.
CopyingName = Literal["pointer-generator", "bottom-up"]
CopyThreshold = Annotated[float, Field(ge=0, lt=1)]
SourceLength = Annotated[int, Field(ge=1, le=MAX_SEQUENCE_LENGTH)]


class EncoderSettings(Settings):
    """The Transformer encoder that reads a text, as wide as the language model.

    layers: the number of layers.
    attention_heads: the number of heads in each layer.
    dropout: dropout of the output of each sublayer.
    """

    layers: Layers = 4
    attention_heads: Annotated[int, Field(ge=1, le=1024)] = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1


class TextSourceSettings(EncoderSettings):
    """Text, through a Transformer encoder with its own vocabulary and embedding matrix.

    vocabulary: the size of its tokenizer's vocabulary.
    max_length: the maximum number of tokens read; the rest of a text is truncated.
    """

    kind: Literal["text"] = "text"
    vocabulary: Annotated[int, Field(ge=1, le=MAX_VOCABULARY_SIZE)]
    max_length: SourceLength = 256


class PretrainedTextSourceSettings(Settings):
    """Text, through the encoder of a pretrained model, in that model's own vocabulary.

    model: its config.json.
    width: the size of its states.
    parameters: the number of its encoder's parameters, including the embedding matrix.
    fixed: the number of these that are never trained, such as sinusoidal positions.
    beginning, ending: ids of the special tokens around a text.
    max_length: the maximum number of tokens read, including these; the rest of a text is truncated.
    """

    kind: Literal["pretrained-text"] = "pretrained-text"
    model: dict[str, Any]
    width: Width
    parameters: Annotated[int, Field(ge=1)]
    fixed: Annotated[int, Field(ge=0)] = 0
    beginning: tuple[int, ...] = ()
    ending: tuple[int, ...] = ()
    max_length: SourceLength = 256


class TrainedTextSourceSettings(Settings):
    """Text in the language model's own vocabulary, through its own embedding matrix.

    max_length: the maximum number of tokens read; the rest of a text is truncated.
    encoder: the encoder above these embeddings; none for `prepend`.
    """

    kind: Literal["own-text"] = "own-text"
    max_length: SourceLength = 256
    encoder: EncoderSettings | None = None


class ClassSourceSettings(Settings):
    """One of several classes.

    classes: their labels.
    vectors: the number of vectors for a class. Attention dropout drops the complete source if there is only one.
    """

    kind: Literal["class"] = "class"
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    vectors: Annotated[int, Field(ge=1, le=1024)] = 1


class FeatureSourceSettings(Settings):
    """Rows of features computed by an external encoder, of any modality.

    features: the number of features in a row.
    rows: the maximum number of rows of an example.
    """

    kind: Literal["features"] = "features"
    features: Annotated[int, Field(ge=1, le=1_000_000)]
    rows: Annotated[int | None, Field(ge=1)] = None


SourceSettings: TypeAlias = Annotated[
    TextSourceSettings
    | PretrainedTextSourceSettings
    | TrainedTextSourceSettings
    | ClassSourceSettings
    | FeatureSourceSettings,
    Field(discriminator="kind"),
]


class ReadingSettings(Settings):
    """How all systems with `conditioning` read the class, the text or the features that they write for.

    vectors: the number of vectors for a class. Attention dropout drops the complete source if there is only one.
    decoder: the decoder that reads the source in simple-fusion and representation.
    encoder: the encoder of a text. Only prepend has none: it reads in the language model's own vocabulary.
    pretrained_encoder: a directory or hub id of a model whose encoder and vocabulary are used instead.
    vocabulary: the vocabulary of a text, learnt on the task's sources, the same for every system.
    shared_vocabulary: whether each system reads a text in the vocabulary that it writes in, with its language model's
    embedding matrix. Required for systems that copy.
    max_length: the maximum number of tokens of a text; the rest is truncated.
    copy_threshold: for systems that copy bottom-up, the minimum probability of a copied token.
    """

    vectors: Annotated[int, Field(ge=1, le=1024)] = 1
    decoder: StackSettings = StackSettings()
    encoder: EncoderSettings = EncoderSettings()
    pretrained_encoder: str | None = None
    vocabulary: VocabularySettings = VocabularySettings()
    shared_vocabulary: bool = False
    max_length: SourceLength = 256
    copy_threshold: CopyThreshold = 0.2

    @model_validator(mode="after")
    def _one_vocabulary(self) -> ReadingSettings:
        if self.shared_vocabulary:
            for name, default in (("vocabulary", VocabularySettings()), ("pretrained_encoder", None)):
                if getattr(self, name) != default:
                    raise ValueError(f"{name} is another vocabulary than a system writes in: it or shared_vocabulary")
        return self


class CopyingSettings(Settings):
    """How tokens of the source are copied.

    kind: pointer-generator, by an attention to the source and a gate (See et al., 2017); or bottom-up, the same with a
    content selector that, at inference, only leaves tokens that are likely to be copied (Gehrmann et al., 2018).
    threshold: of bottom-up, the minimum probability of such a token.
    """

    kind: CopyingName = "pointer-generator"
    threshold: CopyThreshold | None = None

    @model_validator(mode="after")
    def _selects(self) -> CopyingSettings:
        if (self.threshold is not None) != (self.kind == "bottom-up"):
            raise ValueError("a threshold is for bottom-up, which needs one")
        return self


class ConditioningSettings(Settings):
    """How a language model reads a source (Ziegler et al., 2019).

    variant: how it reads the source, of `variants.registry`.
    source: the kind of source.
    decoder: the decoder that reads the source in simple-fusion and representation.
    copying: how tokens of the source are copied, if they are.
    """

    variant: VariantName
    source: SourceSettings
    decoder: StackSettings = StackSettings()
    copying: CopyingSettings | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ConditioningSettings:
        if self.source.kind == "own-text" and (self.source.encoder is None) != VARIANTS[self.variant].in_input:
            raise ValueError(
                f"only prepend, and always prepend, reads own-text without an encoder: {self.variant} cannot"
            )
        if self.copying is not None and (self.source.kind != "own-text" or self.source.encoder is None):
            raise ValueError("only tokens of an encoded text in the language model's own vocabulary can be copied")
        return self
