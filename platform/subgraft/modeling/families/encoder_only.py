# mypy: allow-untyped-calls
"""The common base of masked language models with BERT's layers, and the encoder-decoder that is assembled from one
(Rothe et al., TACL 2020, sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.family import BOTH_SIDES, Family, require_same_padding
from subgraft.modeling.families.heads import Head, own_head_in
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat, required_token

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The model type of transformers' EncoderDecoderModel, here always of two encoders of one family.
BERT2BERT = "encoder-decoder"


class EncoderOnly(Family):
    """One embedding matrix, which serves both sides of the encoder-decoder that is assembled from the model.

    Attributes:
        stack_class: The name of the transformers class of the encoder without its prediction head.
        decoder_class: The name of the class that predicts tokens with a causal mask and cross-attention; None if
            transformers has none.
        head: The name of the prediction head's module; empty if its parts are the model's own.
        transforming: The name of the head's part that transforms states, if it is not the head itself.
        has_pooler: Whether transformers constructs the encoder with a pooler, which an encoder-decoder does not use.
        bias_named_twice: Whether the output projection's bias is also an attribute of the head.
        positions_after_padding: Whether positions are counted from after the padding id, as in RoBERTa: the first rows
            of the position embeddings are unused, and a new vocabulary must have the same padding id.
        attention: The names of the linear maps of an attention. That of its output also ends in `output.dense`.
        feed_forward: The names of the two linear maps of a feed-forward layer.
    """

    objectives = frozenset({"masked"})
    generates = False
    stack_class: ClassVar[str | None] = None
    decoder_class: ClassVar[str | None] = None
    head: ClassVar[str]
    transforming: ClassVar[str] = ""
    has_pooler: ClassVar[bool] = True
    bias_named_twice: ClassVar[bool] = True
    positions_after_padding: ClassVar[bool] = False
    attention: ClassVar[tuple[str, ...]] = ("query", "key", "value", "attention.output.dense")
    feed_forward: ClassVar[tuple[str, str]] = ("intermediate.dense", "output.dense")

    def check(self, config: Config) -> None:
        self.check_segments(config)

    def check_segments(self, config: Config) -> None:
        """Raises UserError for a configuration without segment embeddings."""
        if config.get("type_vocab_size") == 0:
            raise UserError(f"type_vocab_size is 0: a {self.model_type} model needs a segment for its tokens")

    def position_limit(self, config: Config) -> int | None:
        limit = super().position_limit(config)
        unused = int(config.get("pad_token_id", 1)) + 1 if self.positions_after_padding else 0
        return None if limit is None else limit - unused

    def layers(self, config: Config, side: SideName) -> int:
        return int(config[self.layers_key]) if side == "encoder" else 0

    def embedding_width(self, config: Config) -> int:
        return int(config.get("embedding_size", self.width(config)))

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        return {**config, "vocab_size": next(iter(sizes.values()), config["vocab_size"]), "pad_token_id": 0}

    def body_parameters(self, config: Config) -> Parameters:
        total = self.stack_parameters(config, parameter_counts.encoder_layer) + self.head_parameters(config)
        if self.predicts_next_sentence(config):  # the pooler, and two outputs
            total += parameter_counts.linear(self.width(config), self.width(config))
            total += parameter_counts.linear(self.width(config), 2)
        return Parameters(total, total)

    def headed_body_parameters(self, config: Config, head: Head) -> Parameters:
        own = own_head_in(config)
        count = (
            own.parameters(self.width(config), len(head.labels)) if own else self.classifier_parameters(config, head)
        )
        total = self.stack_parameters(config, parameter_counts.encoder_layer) + count
        return Parameters(total, total)

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        """Parameters of position and segment embeddings and of layers.

        layer: the parameters of a layer of this width and inner width: `parameter_counts.encoder_layer` or
            `decoder_layer`.
        """
        width, narrow = self.width(config), self.embedding_width(config)
        rows = config[self.positions_key] + config.get("type_vocab_size", 2)
        embeddings = rows * narrow + parameter_counts.norm(narrow)
        embeddings += parameter_counts.linear(narrow, width) if narrow != width else 0
        return int(embeddings + config[self.layers_key] * layer(width, self.inner_width(config)))

    def head_parameters(self, config: Config) -> int:
        """Parameters of the head's transform."""
        narrow = self.embedding_width(config)
        return parameter_counts.linear(self.width(config), narrow) + parameter_counts.norm(narrow)

    def table_sizes(self, config: Config) -> list[TableSize]:
        table = TableSize(frozenset(self.sides), config["vocab_size"] * self.embedding_width(config))
        return [table, *self.head_tables(config)]

    def head_tables(self, config: Config) -> list[TableSize]:
        """The head's bias; if untied also its projection, and a second bias that is unused, if it has two names."""
        size, decoder = config["vocab_size"], frozenset[Any]({"decoder"})
        if config.get("tie_word_embeddings", True):
            return [TableSize(decoder, size)]
        unused = [TableSize(frozenset(), size)] if self.bias_named_twice else []
        return [TableSize(decoder, size), TableSize(decoder, size * self.embedding_width(config)), *unused]

    def projections(self, config: Config) -> list[Projection]:
        return self.stack_projections(config)

    def stack_projections(self, config: Config, attentions: int = 1) -> list[Projection]:
        """The linear maps of one stack."""
        sizes = self.width(config), self.inner_width(config), config[self.layers_key]
        return parameter_counts.projections(self.attention, self.feed_forward, *sizes, attentions)

    def in_words(self, config: Config) -> str:
        return f"{self.model_type}, {self.layers(config, 'encoder')} layers of width {self.width(config)} for each side"

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """[CLS] … [SEP], as in pretraining; an encoder-decoder assembled from it starts decoding with [CLS]."""
        begin, end = required_token(source, "bos", "a BERT"), required_token(source, "eos", "a BERT")
        return SequenceFormat(
            (end,), (required_token(target, "eos", "a BERT"),), required_token(target, "bos", "a BERT"), (begin,)
        )

    def separator(self, ending: tuple[int, ...]) -> tuple[int, ...]:
        """[SEP]; in the RoBERTas, which have no segments, </s></s>."""
        return ending * 2 if self.positions_after_padding else ending

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        table: nn.Embedding = model.get_input_embeddings()  # type: ignore[assignment]
        return table

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        """The transform of top states before the output projection: the head, or its part `transforming`."""
        transform: Callable[[Tensor], Tensor] = head.get_submodule(self.transforming)
        return transform

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        return self.head_transform(model.get_submodule(self.head))

    def rename_bias(self, model: PreTrainedModel, tied: bool) -> None:
        """Set the head's second name of its bias; in an untied model it is a separate tensor, unused but saved."""
        from torch import nn

        if self.bias_named_twice:
            head: Any = model.get_submodule(self.head)
            bias = head.decoder.bias
            head.bias = bias if tied else nn.Parameter(bias.detach().clone())

    def check_padding(self, padding_id: int | None, new: int | None) -> None:
        if self.positions_after_padding:
            require_same_padding(self.model_type, padding_id, new)

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Raises UserError for separate embeddings of the two sides."""
        from subgraft.modeling.families.table_replacement import replace_tensors

        if len(tables) != 2 or tables["encoder"].input is not tables["decoder"].input:
            raise UserError(
                f"a {self.model_type} model has one embedding matrix",
                hint=f"{BOTH_SIDES} Or make an encoder-decoder of it first: `subgraft assemble`.",
            )
        self.check_padding(model.config.pad_token_id, tables["decoder"].padding_id)
        tied = self.side(model, "decoder").tied
        replace_tensors(self, model, "decoder", tables["decoder"])
        self.rename_bias(model, tied)
        return model

    def _require_decoder(self) -> tuple[str, str]:
        """The names of both classes. Raises UserError if no encoder-decoder can be made."""
        if self.stack_class is None or self.decoder_class is None:
            raise UserError(
                f"transformers has no decoder with a {self.model_type} model's layers, so it cannot be one side of an "
                "encoder-decoder",
                hint="It can get a vocabulary: `subgraft.graft` in Python, `subgraft transfer`.",
            )
        return self.stack_class, self.decoder_class

    def assembled(self, config: Config) -> dict[str, Any]:
        self._require_decoder()
        stack = {key: value for key, value in config.items() if key != "architectures"}
        return {
            "model_type": BERT2BERT,
            "encoder": dict(stack),
            "decoder": {**stack, "is_decoder": True, "add_cross_attention": True},
            "tie_word_embeddings": config.get("tie_word_embeddings", True),
        }

    def assemble(self, model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
        """Both sides are initialised with the model's weights; cross-attention is new.

        Raises UserError if the tokenizer lacks a beginning, end or padding token, or transformers has no such decoder.
        """
        import torch
        import transformers

        if missing := [role for role in ("pad", "bos", "eos") if role not in tokenizer.special]:
            raise UserError(f"the vocabulary of this BERT has no special token for: {', '.join(missing)}")
        ids = {f"{role}_token_id": tokenizer.special[role] for role in ("pad", "bos", "eos")}
        ids["decoder_start_token_id"] = ids["bos_token_id"]  # [CLS], the beginning of a sentence in pretraining
        sizes = {**model.config.to_dict(), "pad_token_id": ids["pad_token_id"]}
        masks = ("is_decoder", "add_cross_attention", "use_cache")  # which tokens a stack sees, and how
        for derived in ("model_type", "architectures", *masks, "_name_or_path"):
            sizes.pop(derived, None)
        stack_class, decoder_class = (getattr(transformers, name) for name in self._require_decoder())
        config_class: Any = type(model.config)
        encoder_config = config_class(**sizes)
        decoder_config = config_class(**sizes, is_decoder=True, add_cross_attention=True)
        both: dict[str, Any] = {**ids, "tie_word_embeddings": encoder_config.tie_word_embeddings}
        config = transformers.EncoderDecoderConfig(
            encoder=encoder_config.to_dict(), decoder=decoder_config.to_dict(), **both
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder = stack_class(encoder_config, **({"add_pooling_layer": False} if self.has_pooler else {}))
            assembled = transformers.EncoderDecoderModel(config, encoder, decoder_class(decoder_config))
        body = model.base_model.state_dict()
        assembled.encoder.load_state_dict({name: each for name, each in body.items() if not name.startswith("pooler.")})
        new = assembled.decoder.load_state_dict(model.state_dict(), strict=False).missing_keys
        assert all(".crossattention." in name for name in new)
        for name, token in ids.items():
            setattr(assembled.generation_config, name, token)
        # Without a limit of its own, generate stops after 20 tokens.
        assembled.generation_config.max_length = getattr(encoder_config, self.positions_key)
        assembled.eval()
        return assembled
