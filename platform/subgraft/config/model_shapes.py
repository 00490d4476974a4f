"""The bases of settings of new models: their size, and what their family declares for validation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_LAYERS, MAX_SEQUENCE_LENGTH, MAX_WIDTH
from subgraft.config.settings_base import Settings, Share, SideName, VocabularyKind

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
    assembles: whether a model that generates text can be made of one that does not.
    recurrent: whether its layers can read their own states of the block before.
    """

    if TYPE_CHECKING:
        family: str  # each family has its own

    objectives: ClassVar[frozenset[str]]
    sides: ClassVar[tuple[SideName, ...]] = ("encoder", "decoder")
    one_vocabulary: ClassVar[bool] = True
    one_table: ClassVar[bool] = False
    needs_language_codes: ClassVar[bool] = False
    attends_to_source: ClassVar[bool] = False
    takes_source_encoder: ClassVar[bool] = False
    assembles: ClassVar[bool] = True
    recurrent: ClassVar[bool] = False
    vocabulary_kinds: ClassVar[tuple[VocabularyKind, ...]] = get_args(VocabularyKind)

    d_model: Annotated[int, Field(ge=8, le=MAX_WIDTH)]
    attention_heads: Annotated[int, Field(ge=1, le=1024)]
    ffn_dim: Annotated[int, Field(ge=8, le=1_048_576)]
    attention_dropout: Share = 0.0
    max_positions: Annotated[int, Field(ge=16, le=MAX_SEQUENCE_LENGTH)] = 512

    @property
    def model_type(self) -> str:
        """The model type in config.json."""
        return self.family

    @property
    def width_of_rows(self) -> int:
        """The width of the embedding matrices."""
        return self.d_model

    @property
    def objective_embeddings(self) -> int:
        """The number of objectives with an embedding; 0 for a model without any."""
        return 0

    @property
    def width_of_entities(self) -> int | None:
        """The width of the embeddings of entities that it reads; None if it reads none."""
        return None

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


class EntityInput(Settings):
    """Base of the settings of entities that a new model reads."""

    @property
    def width(self) -> int | None:
        """The width of their embeddings, if the settings define it."""
        raise NotImplementedError

    def step(self, base: Path, seed: int) -> Any:
        """The step that makes their embeddings. base: the folder to which paths are relative."""
        raise NotImplementedError
