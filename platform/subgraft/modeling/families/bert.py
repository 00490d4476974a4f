# mypy: allow-untyped-calls
"""BERT (Devlin et al., 2019) with its masked language modelling head, and ELECTRA's generator, a BERT with narrower
embeddings. Both are encoders with one embedding matrix that do not generate text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.assembly import Stacks, assemble, assembled
from subgraft.modeling.families.family import ITS_VOCABULARY, Family
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat, needed

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.models import BertSettings
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Bert(Family):
    """Its embeddings serve both sides of the encoder-decoder that is assembled from it."""

    model_type = "bert"
    objectives = frozenset({"masked"})
    generates = False

    def check(self, config: Config) -> None:
        if config.get("type_vocab_size") == 0:
            raise UserError(f"type_vocab_size is 0: a {self.model_type} model needs a segment for its tokens")

    def layers(self, config: Config, side: SideName) -> int:
        return int(config["num_hidden_layers"]) if side == "encoder" else 0

    def width(self, config: Config) -> int:
        return int(config["hidden_size"])

    def inner_width(self, config: Config) -> int:
        return int(config["intermediate_size"])

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        return {**config, "vocab_size": next(iter(sizes.values()), config["vocab_size"]), "pad_token_id": 0}

    def body_parameters(self, config: Config) -> Parameters:
        total = stack_size(config, parameter_counts.encoder_layer) + head_size(config)
        return Parameters(total, total)

    def table_sizes(self, config: Config) -> list[TableSize]:
        table = TableSize(frozenset(self.sides), config["vocab_size"] * self.embedding_width(config))
        return [table, *self.head_tables(config)]

    def head_tables(self, config: Config) -> list[TableSize]:
        """The head's bias; if untied also its projection, with a second bias that is unused."""
        size, decoder = config["vocab_size"], frozenset[Any]({"decoder"})
        if config.get("tie_word_embeddings", True):
            return [TableSize(decoder, size)]
        return [
            TableSize(decoder, size),
            TableSize(decoder, size * config["hidden_size"]),
            TableSize(frozenset(), size),
        ]

    def projections(self, config: Config) -> list[Projection]:
        return stack_projections(config)

    def in_words(self, config: Config) -> str:
        return f"{self.model_type}, {self.layers(config, 'encoder')} layers of width {self.width(config)} for each side"

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """[CLS] … [SEP], as in pretraining; an encoder-decoder assembled from it starts decoding with [CLS]."""
        begin, end = needed(source, "bos", "a BERT"), needed(source, "eos", "a BERT")
        return SequenceFormat((end,), (needed(target, "eos", "a BERT"),), needed(target, "bos", "a BERT"), (begin,))

    def described(self, settings: BertSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        if settings.embedding_width is not None:
            return Electra().described(settings, encoder_size, decoder_size)
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            "hidden_size": settings.d_model,
            "num_hidden_layers": settings.layers,
            "num_attention_heads": settings.attention_heads,
            "intermediate_size": settings.ffn_dim,
            "max_position_embeddings": settings.max_positions,
        }

    def build(self, settings: BertSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """The output projection is tied. Segment embeddings exist but are not used."""
        from transformers import BertConfig

        from subgraft.modeling.families.initialization import initialised

        if settings.embedding_width is not None:
            return Electra().build(settings, encoder, decoder, seed)

        config = BertConfig(
            vocab_size=len(decoder),
            hidden_size=settings.d_model,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.attention_heads,
            intermediate_size=settings.ffn_dim,
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=settings.attention_dropout,
            max_position_embeddings=settings.max_positions,
            pad_token_id=decoder.special["pad"],
        )
        return initialised(self.model_class(), config, seed)

    def assembled(self, config: Config) -> dict[str, Any]:
        return assembled(config)

    def assemble(self, model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
        return assemble(model, self.stacks(), tokenizer, seed)

    def stacks(self) -> Stacks:
        """The classes that an encoder-decoder is assembled from."""
        from transformers import BertConfig, BertLMHeadModel, BertModel

        return Stacks(BertConfig, BertModel, BertLMHeadModel)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import BertForMaskedLM

        return BertForMaskedLM

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        table: nn.Embedding = model.get_input_embeddings()  # type: ignore[assignment]
        return table

    def head(self, model: PreTrainedModel) -> Any:
        """The prediction head; its `decoder` is the output projection."""
        return model.cls.predictions  # type: ignore[union-attr]

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        """The head's transform of top states before the projection."""
        transform: nn.Module = head.transform
        return transform

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        return self.head_transform(self.head(model))

    def name_bias(self, model: PreTrainedModel, tied: bool) -> None:
        """Let all attributes that refer to the head's bias refer to the new one."""
        name_bias_twice(self.head(model), tied)

    def check_padding(self, padding_id: int | None, new: int | None) -> None:
        """Raises UserError if the model does not support another padding id."""

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Raises UserError for separate embeddings of the two sides."""
        from subgraft.modeling.families.table_replacement import exchange

        if len(tables) != 2 or tables["encoder"].input is not tables["decoder"].input:
            raise UserError(
                f"a {self.model_type} model has one table for all it reads and predicts",
                hint="Give both sides one vocabulary, or make an encoder-decoder of it first: `subgraft assemble`.",
            )
        self.check_padding(model.config.pad_token_id, tables["decoder"].padding_id)
        tied = self.side(model, "decoder").tied
        exchange(self, model, "decoder", tables["decoder"])
        self.name_bias(model, tied)
        return model


class Electra(Bert):
    """ELECTRA's generator (Clark et al., ICLR 2020): embeddings may be narrower than hidden states.

    BERT settings with `embedding_width` build one. A linear layer maps embeddings to the model's width, and another,
    in the head, maps top states back to the width of the embeddings.
    """

    model_type = "electra"

    def check(self, config: Config) -> None:
        super().check(config)
        if config.get("architectures") == ["ElectraForPreTraining"]:
            raise UserError(
                "this is an ELECTRA discriminator, which has no head that predicts tokens",
                hint="Give the generator that was pretrained with it (electra-small-generator for "
                f"electra-small-discriminator). {ITS_VOCABULARY}",
            )

    def embedding_width(self, config: Config) -> int:
        return row_width(config)

    def head_tables(self, config: Config) -> list[TableSize]:
        """The head's bias, which has one name here; if untied also the projection."""
        rows, decoder = int(config["vocab_size"]), frozenset[Any]({"decoder"})
        own = [] if config.get("tie_word_embeddings", True) else [TableSize(decoder, rows * row_width(config))]
        return [TableSize(decoder, rows), *own]

    def described(self, settings: BertSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        wide = settings.model_copy(update={"embedding_width": None})
        told = super().described(wide, encoder_size, decoder_size)
        return {**told, "model_type": self.model_type, "embedding_size": settings.width_of_rows}

    def build(self, settings: BertSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        from transformers import ElectraConfig

        from subgraft.modeling.families.initialization import initialised

        sizes = self.described(settings, len(encoder), len(decoder))
        del sizes["model_type"]
        config = ElectraConfig(
            **sizes,
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=settings.attention_dropout,
            pad_token_id=decoder.special["pad"],
        )
        return initialised(self.model_class(), config, seed)

    def stacks(self) -> Stacks:
        from transformers import ElectraConfig, ElectraForCausalLM, ElectraModel

        def encoder(config: ElectraConfig, add_pooling_layer: bool) -> ElectraModel:
            assert not add_pooling_layer, "it never has one"
            return ElectraModel(config)

        return Stacks(ElectraConfig, encoder, ElectraForCausalLM)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import ElectraForMaskedLM

        return ElectraForMaskedLM

    def head(self, model: PreTrainedModel) -> Any:
        return model.generator_predictions

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        transform: Callable[[Tensor], Tensor] = head
        return transform

    def name_bias(self, model: PreTrainedModel, tied: bool) -> None:
        """Nothing to do: the bias has one name."""


def name_bias_twice(head: Any, tied: bool) -> None:
    """Set the head's second name of its bias; in an untied model it is a separate tensor, unused but saved."""
    from torch import nn

    bias = head.decoder.bias
    head.bias = bias if tied else nn.Parameter(bias.detach().clone())


def stack_projections(config: Config, attentions: int = 1) -> list[Projection]:
    """The linear maps of one stack. (The name of the attention's output also ends in `output.dense`.)"""
    attention = ("query", "key", "value", "attention.output.dense")
    inner = ("intermediate.dense", "output.dense")
    sizes = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    return parameter_counts.projections(attention, inner, *sizes, attentions)


def stack_size(config: Config, layer: Any) -> int:
    """Parameters of position and segment embeddings and of the layers.

    layer: `parameter_counts.encoder_layer` or `decoder_layer`.
    """
    width, segments = config["hidden_size"], config.get("type_vocab_size", 2)
    narrow = row_width(config)
    beside = (config["max_position_embeddings"] + segments) * narrow + parameter_counts.norm(narrow)
    beside += parameter_counts.linear(narrow, width) if narrow != width else 0
    return int(beside + config["num_hidden_layers"] * layer(width, config["intermediate_size"]))


def head_size(config: Config) -> int:
    """Parameters of the head's transform."""
    return parameter_counts.linear(config["hidden_size"], row_width(config)) + parameter_counts.norm(row_width(config))


def row_width(config: Config) -> int:
    """The width of the embeddings: an ELECTRA's `embedding_size`, otherwise that of hidden states."""
    return int(config.get("embedding_size", config["hidden_size"]))
