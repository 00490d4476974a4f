"""Settings of new models: one class for each family that can be built.

A configuration's `model` is the class that its `family` names. Class attributes hold the facts of a family that
validation needs; the code that handles its models is in modeling/families.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from subgraft.base.entries import imported
from subgraft.base.limits import MAX_WIDTH
from subgraft.config.model_shapes import OneStackSettings, TransformerSettings, TwoStackSettings
from subgraft.config.settings_base import Share


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
    def model_type(self) -> str:
        return self.family if self.embedding_width is None else "factorised_mbart"

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
    def model_type(self) -> str:
        return self.family if self.embedding_width is None else "electra"

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


# In the order of documents and messages.
ENTRIES: tuple[type[TransformerSettings], ...] = (
    MarianSettings,
    MBartSettings,
    BartSettings,
    BertSettings,
    RobertaSettings,
    imported("subgraft.contrib.ernie.settings:ErnieSettings"),
    imported("subgraft.contrib.xlnet.settings:XLNetSettings"),
    GPT2Settings,
    LlamaSettings,
    T5Settings,
    M2M100Settings,
    imported("subgraft.contrib.ernie_thu.settings:KnowledgeableSettings"),
    imported("subgraft.contrib.ernie3.settings:BranchedSettings"),
)
DEFAULT_FAMILY = "marian"
SETTINGS_OF_FAMILY: Mapping[str, type[TransformerSettings]] = {
    settings.model_fields["family"].default: settings for settings in ENTRIES
}
if TYPE_CHECKING:
    ModelSettings: TypeAlias = TwoStackSettings | OneStackSettings
else:  # `family` selects one
    ModelSettings = Annotated[reduce(or_, ENTRIES), Field(discriminator="family")]


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
