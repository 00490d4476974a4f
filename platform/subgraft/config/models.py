"""Settings of new models: one class for each family that can be built.

A configuration's `model` is the class that its `family` names. Class attributes hold the facts of a family that
validation needs; the code that handles its models is in modeling/families.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_LAYERS, MAX_SEQUENCE_LENGTH, MAX_WIDTH
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, Settings, Share, SideName, VocabularyKind

Layers = Annotated[int, Field(ge=1, le=MAX_LAYERS)]


class TransformerSettings(Settings):
    """Size of a Transformer, without its vocabularies.

    family: the kind of model.
    d_model: width of embeddings and hidden states.
    attention_heads: heads of every attention; a divisor of d_model.
    ffn_dim: inner width of the feed-forward layers.
    attention_dropout: dropout of attention weights.
    max_positions: the longest sequence, in tokens.

    objectives: the pretraining objectives.
    sides: the sides with embeddings.
    one_vocabulary: whether both sides share a vocabulary.
    one_table: whether they also share it after a transfer.
    needs_language_codes: whether its vocabulary must have language codes.
    vocabulary_kinds: the kinds of vocabulary that it can be pretrained with.
    takes_source_encoder: whether a new encoder of a foreign language can be put before its own.
    attends_to_source: whether the layers of a decoder can attend to a source.
    reads_entities: whether it reads embeddings of entities.
    assembles: whether a model that generates text can be made of one that does not.
    recurrent: whether its layers can read their own states of the block before.
    """

    objectives: ClassVar[frozenset[str]]
    sides: ClassVar[tuple[SideName, ...]] = ("encoder", "decoder")
    one_vocabulary: ClassVar[bool] = True
    one_table: ClassVar[bool] = False
    needs_language_codes: ClassVar[bool] = False
    attends_to_source: ClassVar[bool] = False
    takes_source_encoder: ClassVar[bool] = False
    reads_entities: ClassVar[bool] = False
    assembles: ClassVar[bool] = True
    recurrent: ClassVar[bool] = False
    vocabulary_kinds: ClassVar[tuple[VocabularyKind, ...]] = get_args(VocabularyKind)

    d_model: Annotated[int, Field(ge=8, le=MAX_WIDTH)]
    attention_heads: Annotated[int, Field(ge=1, le=1024)]
    ffn_dim: Annotated[int, Field(ge=8, le=1_048_576)]
    attention_dropout: Share = 0.0
    max_positions: Annotated[int, Field(ge=16, le=MAX_SEQUENCE_LENGTH)] = 512

    @property
    def width_of_rows(self) -> int:
        """The width of the embedding matrices."""
        return self.d_model

    @property
    def objective_embeddings(self) -> int:
        """The number of objectives with an embedding; 0 for a model without any."""
        return 0

    @property
    def predicts_next(self) -> bool:
        """Whether it can have a head for next sentences."""
        return False

    @model_validator(mode="after")
    def _heads_divide(self) -> TransformerSettings:
        if self.d_model % self.attention_heads:
            raise ValueError(f"d_model {self.d_model} is not divisible by attention_heads {self.attention_heads}")
        return self


class TwoStackSettings(TransformerSettings):
    """An encoder-decoder, whose stacks have the same width, heads and dropout.

    encoder_layers: layers of the encoder.
    decoder_layers: layers of the decoder.
    dropout: dropout of embeddings and of the output of each sublayer.
    activation_dropout: dropout inside the feed-forward layers.
    """

    encoder_layers: Layers
    decoder_layers: Layers
    dropout: Share = 0.1
    activation_dropout: Share = 0.0

    def depth(self, side: SideName) -> int:
        """The layers of a side of the finetuned model."""
        return self.encoder_layers if side == "encoder" else self.decoder_layers


class OneStackSettings(TransformerSettings):
    """A single encoder or decoder.

    layers: layers of the stack.
    """

    layers: Layers

    def depth(self, side: SideName) -> int:
        """The layers of a side of the finetuned model."""
        return self.layers


class MarianSettings(TwoStackSettings):
    """A translation Transformer with a vocabulary per side."""

    objectives = frozenset({"translation"})
    one_vocabulary = False

    family: Literal["marian"] = "marian"


class MBartSettings(TwoStackSettings):
    """One vocabulary of all languages, with a code for each.

    embedding_width: the width of the embedding matrices, if narrower than hidden states; trained projections map
    between the two.
    """

    objectives = frozenset({"translation", "denoising", "masked-seq2seq"})
    needs_language_codes = True

    family: Literal["mbart"] = "mbart"
    embedding_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None

    @property
    def width_of_rows(self) -> int:
        return self.embedding_width or self.d_model

    @model_validator(mode="after")
    def _narrower(self) -> MBartSettings:
        _require_narrower(self.embedding_width, self.d_model)
        return self


class BartSettings(TwoStackSettings):
    """One vocabulary of one language for both sides, without language codes."""

    objectives = frozenset({"translation", "denoising", "masked-seq2seq"})
    one_table = True
    takes_source_encoder = True

    family: Literal["bart"] = "bart"


class BertSettings(OneStackSettings):
    """Pretrained as an encoder. The encoder-decoder made from it has as many layers on both sides.

    Masking needs a mask token, which WordPiece vocabularies have.
    dropout: dropout of embeddings and of the output of each sublayer.
    embedding_width: the width of the embedding matrices, if narrower than hidden states; the model is then an ELECTRA
    generator.
    """

    objectives = frozenset({"masked", "multitask-masked", "left-to-right"})
    vocabulary_kinds = ("wordpiece",)

    family: Literal["bert"] = "bert"
    dropout: Share = 0.1
    embedding_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None

    @property
    def width_of_rows(self) -> int:
        return self.embedding_width or self.d_model

    @property
    def predicts_next(self) -> bool:
        return self.embedding_width is None

    @model_validator(mode="after")
    def _narrower(self) -> BertSettings:
        _require_narrower(self.embedding_width, self.d_model)
        return self


class RobertaSettings(OneStackSettings):
    """A BERT without segments whose positions follow those of padding (Liu et al. 2019), for byte-level vocabularies.

    Its vocabulary pads with id 1, as learnt ones do. max_positions: the longest text; position embeddings have two rows
    more.
    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"masked", "multitask-masked", "left-to-right"})
    vocabulary_kinds = ("byte-level-bpe", "unigram", "bpe")

    family: Literal["roberta"] = "roberta"
    dropout: Share = 0.1


class ErnieSettings(OneStackSettings):
    """ERNIE 1 or 2: a BERT with more segments and with embeddings of objectives.

    dropout: dropout of embeddings and of the output of each sublayer.
    segments: the number of segment embeddings.
    task_embeddings: the number of embeddings of objectives (ERNIE 2), which follow the order of upstream.objectives;
    finetuning has the first. 0 for none.
    """

    objectives = frozenset(
        {
            "masked",
            "dialogue",
            "capitalisation",
            "token-document",
            "sentence-reordering",
            "sentence-distance",
            "discourse-relation",
            "relevance",
        }
    )
    vocabulary_kinds = ("wordpiece",)

    family: Literal["ernie"] = "ernie"
    dropout: Share = 0.1
    segments: Annotated[int, Field(ge=3, le=16)] = 4
    task_embeddings: Annotated[int, Field(ge=0, le=64)] = 0

    @property
    def objective_embeddings(self) -> int:
        return self.task_embeddings

    @property
    def predicts_next(self) -> bool:
        return True


class XLNetSettings(OneStackSettings):
    """An encoder with relative positions and two streams of states, for tasks with labels: it generates no text.

    max_positions: the longest text; the model itself has no limit.
    dropout: one rate for the complete model.
    """

    objectives = frozenset({"permutation", "masked"})
    vocabulary_kinds = SENTENCEPIECE_KINDS
    assembles = False

    family: Literal["xlnet"] = "xlnet"
    dropout: Share = 0.1

    @model_validator(mode="after")
    def _one_rate(self) -> XLNetSettings:
        if self.attention_dropout:
            raise ValueError("an XLNet has one dropout for the complete model: set only `dropout`")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model}: positions are sines and cosines, so it must be even")
        return self


class GPT2Settings(OneStackSettings):
    """A decoder only, with learnt positions.

    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"causal"})
    sides = ("decoder",)
    attends_to_source = True

    family: Literal["gpt2"] = "gpt2"
    dropout: Share = 0.1


class LlamaSettings(OneStackSettings):
    """A decoder only, with rotary positions.

    key_value_heads: heads of keys and values; one for each attention head by default.
    tied: whether the output projection is the input embedding matrix.
    """

    objectives = frozenset({"causal"})
    sides = ("decoder",)

    family: Literal["llama"] = "llama"
    key_value_heads: Annotated[int, Field(ge=1, le=1024)] | None = None
    tied: bool = False

    @model_validator(mode="after")
    def _groups_divide(self) -> LlamaSettings:
        if self.attention_heads % (self.key_value_heads or 1):
            raise ValueError(
                f"attention_heads {self.attention_heads} is not divisible by key_value_heads {self.key_value_heads}"
            )
        if self.d_model // self.attention_heads % 2:
            raise ValueError("rotary positions rotate pairs: d_model / attention_heads must be even")
        return self


class M2M100Settings(TwoStackSettings):
    """One vocabulary of all languages, with a code for each, as M2M-100 and NLLB have."""

    objectives = frozenset({"translation"})
    one_table = True
    needs_language_codes = True

    family: Literal["m2m_100"] = "m2m_100"


class T5Settings(TwoStackSettings):
    """One vocabulary for both sides. max_positions: the longest text; the model itself has no limit.

    tied: whether the output projection is the input embedding matrix. T5 1.1 is gated and not tied.
    gated: whether feed-forward layers are gated.
    dropout: one rate for the complete model.
    """

    objectives = frozenset({"translation"})
    one_table = True

    family: Literal["t5"] = "t5"
    tied: bool = True
    gated: bool = False

    @model_validator(mode="after")
    def _one_rate(self) -> T5Settings:
        if self.attention_dropout or self.activation_dropout:
            raise ValueError("a T5 has one dropout for the complete model: set only `dropout`")
        return self


class KnowledgeableSettings(OneStackSettings):
    """Tsinghua's ERNIE (Zhang et al., ACL 2019): a BERT that reads embeddings of entities (upstream.entities) too.

    layers: layers of the textual encoder.
    knowledge_layers: layers of the knowledgeable encoder above it.
    entity_width: the width of entity embeddings and states.
    entity_heads: heads of the attention of entities; a divisor of entity_width.
    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"masked", "masked-entities", "knowledge-text"})
    vocabulary_kinds = ("wordpiece",)
    reads_entities = True

    family: Literal["knowledgeable"] = "knowledgeable"
    knowledge_layers: Layers
    entity_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 100
    entity_heads: Annotated[int, Field(ge=1, le=1024)] = 4
    dropout: Share = 0.1

    def depth(self, side: SideName) -> int:
        return self.layers + self.knowledge_layers

    @property
    def predicts_next(self) -> bool:
        return True

    @model_validator(mode="after")
    def _entity_heads_divide(self) -> KnowledgeableSettings:
        if self.entity_width % self.entity_heads:
            raise ValueError(f"entity_width {self.entity_width} is not divisible by entity_heads {self.entity_heads}")
        return self


class BranchedSettings(OneStackSettings):
    """ERNIE 3 (Sun et al., 2021): a universal body, and on it a branch for understanding and one for writing.

    layers: layers of the body.
    branch_layers, branch_width, branch_heads, branch_ffn_dim: the sizes of each branch.
    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"masked", "causal", "knowledge-text"})
    vocabulary_kinds = ("wordpiece",)
    recurrent = True

    family: Literal["branched"] = "branched"
    branch_layers: Layers = 3
    branch_width: Annotated[int, Field(ge=8, le=MAX_WIDTH)] = 256
    branch_heads: Annotated[int, Field(ge=1, le=1024)] = 4
    branch_ffn_dim: Annotated[int, Field(ge=8, le=1_048_576)] = 1024
    dropout: Share = 0.1

    def depth(self, side: SideName) -> int:
        return self.layers + self.branch_layers

    @model_validator(mode="after")
    def _branch_heads_divide(self) -> BranchedSettings:
        if self.branch_width % self.branch_heads:
            raise ValueError(f"branch_width {self.branch_width} is not divisible by branch_heads {self.branch_heads}")
        return self


ModelSettings = Annotated[
    MarianSettings
    | MBartSettings
    | BartSettings
    | BertSettings
    | RobertaSettings
    | ErnieSettings
    | XLNetSettings
    | GPT2Settings
    | LlamaSettings
    | T5Settings
    | M2M100Settings
    | KnowledgeableSettings
    | BranchedSettings,
    Field(discriminator="family"),
]
DEFAULT_FAMILY = "marian"
SETTINGS_OF_FAMILY: Mapping[str, type[TransformerSettings]] = {
    settings.model_fields["family"].default: settings for settings in get_args(get_args(ModelSettings)[0])
}


def is_decoder_alone(family: str) -> bool:
    """Whether models of a family have no encoder."""
    return SETTINGS_OF_FAMILY[family].sides == ("decoder",)


def families_for(*objectives: str) -> tuple[str, ...]:
    """The families whose new models can be pretrained with all of these objectives."""
    return tuple(
        family for family, settings in SETTINGS_OF_FAMILY.items() if settings.objectives.issuperset(objectives)
    )


def _require_narrower(embedding_width: int | None, d_model: int) -> None:
    if embedding_width is not None and embedding_width >= d_model:
        raise ValueError(f"embedding_width {embedding_width} is not less than d_model {d_model}")
