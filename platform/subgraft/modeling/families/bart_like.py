# mypy: allow-untyped-calls
"""The common base of Marian, mBART and others: encoder-decoders with BART's configuration and module names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.family import Family, separate_tables_error
from subgraft.modeling.families.model_parts import Config, Projection, Tables, TableSize

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.model_shapes import TwoStackSettings
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

    ClassAndConfig = tuple[type[PreTrainedModel], PreTrainedConfig]


# The number of positions that are computed at a time, which bounds the additional memory.
_POSITIONS_AT_ONCE = 4096


class BartLike(Family):
    """Sizes are d_model, encoder_layers, encoder_ffn_dim, …; tables are model.SIDE.embed_tokens and lm_head.

    Attributes:
        separate_config: Entries of config.json of a model whose sides have separate embeddings.
        sinusoids: The name of transformers' class of positions that are stored as weights and never trained, if any.
        shared_module: Whether an embedding matrix that both sides share is also the module `model.shared`.
    """

    width_key = "d_model"
    separate_config: ClassVar[Mapping[str, Any]]
    sinusoids: ClassVar[str | None] = None
    shared_module: ClassVar[bool] = True

    def without_second_side(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """config.json of a model with shared embeddings, without the entries for separate ones."""
        return {
            name: value for name, value in config.items() if name not in ("decoder_vocab_size", "encoder_pad_token_id")
        }

    def config_dict(self, settings: TwoStackSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        """Encoder and decoder have the same width and heads."""
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            "d_model": settings.d_model,
            "encoder_layers": settings.encoder_layers,
            "decoder_layers": settings.decoder_layers,
            "encoder_attention_heads": settings.attention_heads,
            "decoder_attention_heads": settings.attention_heads,
            "encoder_ffn_dim": settings.ffn_dim,
            "decoder_ffn_dim": settings.ffn_dim,
            "max_position_embeddings": settings.max_positions,
            # Ids within the smallest possible vocabulary: a padding row must exist.
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
        }

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """Token ids are the decoder's, because generation reads them. Decoding starts with the end token.

        No end token is forced, so that a translation that reached its length limit does not look complete.
        """
        return {
            **self.config_dict(settings, len(encoder), len(decoder)),
            "dropout": settings.dropout,
            "attention_dropout": settings.attention_dropout,
            "activation_dropout": settings.activation_dropout,
            "scale_embedding": True,
            "pad_token_id": decoder.special["pad"],
            "bos_token_id": decoder.special.get("bos"),
            "eos_token_id": decoder.special["eos"],
            "decoder_start_token_id": decoder.special["eos"],
            "forced_eos_token_id": None,
        }

    def layers(self, config: Config, side: SideName) -> int:
        return int(config[f"{side}_layers"])

    def inner_width(self, config: Config) -> int:
        return max(int(config["encoder_ffn_dim"]), int(config["decoder_ffn_dim"]))

    def layer_parameters(self, config: Config) -> int:
        norms = 2 * self.layers(config, "encoder") + 3 * self.layers(config, "decoder")
        return parameter_counts.maps(self.projections(config)) + norms * parameter_counts.norm(self.width(config))

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        return {"encoder": config["vocab_size"], "decoder": config.get("decoder_vocab_size") or config["vocab_size"]}

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        both = self.vocabulary_sizes(config) | dict(sizes)
        changed = {"vocab_size": both["encoder"], "decoder_vocab_size": both["decoder"]}
        # Any valid ids do; transformers cannot construct a padding id beyond a smaller vocabulary.
        ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "encoder_pad_token_id": 0}
        return {**config, **changed, **ids, **self.separate_config}

    @abstractmethod
    def has_shared_table(self, config: Config) -> bool:
        """Whether the model has a shared embedding matrix; an untied model has one that is unused."""

    def table_sizes(self, config: Config) -> list[TableSize]:
        width = self.embedding_width(config)
        numbers = {side: rows * width for side, rows in self.vocabulary_sizes(config).items()}
        tied, shared = config.get("tie_word_embeddings", True), self.has_shared_table(config)
        if tied and shared:
            return [TableSize(frozenset(self.sides), numbers["decoder"])]
        tables = [TableSize(frozenset({side}), count) for side, count in numbers.items()]
        if shared:
            tables.append(TableSize(frozenset(), numbers["encoder"]))
        if not tied:
            tables.append(TableSize(frozenset({"decoder"}), numbers["decoder"]))
        return tables

    def projections(self, config: Config) -> list[Projection]:
        width, attention, inner = self.width(config), ("q_proj", "k_proj", "v_proj", "out_proj"), ("fc1", "fc2")
        return [
            projection
            for side, attentions in (("encoder", 1), ("decoder", 2))
            for projection in parameter_counts.projections(
                attention, inner, width, config[f"{side}_ffn_dim"], config[f"{side}_layers"], attentions
            )
        ]

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        table: nn.Embedding = getattr(model.model, name).embed_tokens
        return table

    def output_bias(self, model: PreTrainedModel) -> Tensor | None:
        bias: Tensor = model.final_logits_bias  # type: ignore[assignment]
        return bias

    def model_class(self) -> type[PreTrainedModel]:
        """transformers' class with a vectorised table of sinusoids: its own loop takes minutes for a long table."""
        if self.sinusoids is not None:
            module: Any = import_module(f"transformers.models.{self.model_type}.modeling_{self.model_type}")
            getattr(module, self.sinusoids).create_weight = _sinusoids
        return super().model_class()

    def post_init(self, model: PreTrainedModel) -> None:
        """Set the encoder's padding row, and freeze sinusoids, which transformers leaves trainable in a loaded model.

        transformers knows one `pad_token_id` and constructs both embeddings with it; `encoder_pad_token_id` is the
        encoder's, if the configuration has one.
        """
        if self.sinusoids is not None:
            for name in self.sides:
                model.get_submodule(f"model.{name}.embed_positions").requires_grad_(False)
        padding = getattr(model.config, "encoder_pad_token_id", None)
        if padding is not None:
            self.input_table(model, "encoder").padding_idx = padding

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Encoder and decoder keep sharing embeddings only if they did before and both get the same tensor.

        Raises UserError if the decoder's padding id lies outside the encoder's vocabulary, which transformers cannot
        construct.
        """
        from subgraft.modeling.families.table_replacement import current_tables, rebuild

        encoder, decoder = (
            tables[name] if name in tables else current_tables(self, model, name) for name in ("encoder", "decoder")
        )
        if decoder.padding_id is not None and decoder.padding_id >= len(encoder.input):
            raise UserError(
                f"the padding id of the decoder's vocabulary ({decoder.padding_id}) lies outside the encoder's "
                f"vocabulary of {len(encoder.input)}",
                hint="Use a vocabulary whose padding token has a low id, as `subgraft vocab learn` makes them.",
            )
        tables_of_sides = [self.input_table(model, name).weight for name in self.sides]
        shared = tables_of_sides[0] is tables_of_sides[1] and encoder.input is decoder.input
        sizes = {"vocab_size": len(encoder.input), "decoder_vocab_size": len(decoder.input)}
        ids = {"pad_token_id": decoder.padding_id, "encoder_pad_token_id": encoder.padding_id}
        settings = {**model.config.to_dict(), **sizes, **ids}
        for derived in ("model_type", "architectures", "auto_map"):
            settings.pop(derived, None)
        kind, config = self._rebuild_config(model.config, settings, shared)
        rebuilt_model = rebuild(model, kind, config, encoder, decoder, shared and self.shared_module)
        self.post_init(rebuilt_model)
        return rebuilt_model

    @abstractmethod
    def _rebuild_config(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> ClassAndConfig:
        """The class and the configuration of a model with other embeddings.

        Args:
            config: The model's configuration.
            settings: Its entries with the new sizes and padding ids.
            shared: Whether both sides share one embedding matrix.
        """


class OneTable(BartLike):
    """Models whose encoder, decoder and output projection always share one embedding matrix.

    display_name: the model's name in messages, with its article.
    """

    separate_config: ClassVar[Mapping[str, Any]] = {}
    display_name: ClassVar[str]
    one_table = True

    def check(self, config: Config) -> None:
        if not config.get("tie_word_embeddings", True):
            raise UserError(f"{self.display_name} with untied embeddings is not supported")

    def has_shared_table(self, config: Config) -> bool:
        return True

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        """Raises UserError for separate vocabularies of the two sides."""
        if len(sizes) == 1 or len(set(sizes.values())) > 1:
            raise separate_tables_error(self.model_type)
        return self.without_second_side(super().with_vocabularies(config, sizes))

    def _rebuild_config(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> ClassAndConfig:
        if not shared:
            raise separate_tables_error(self.model_type)
        return self.model_class(), type(config)(**self.without_second_side(settings))


def _sinusoids(table: nn.Embedding) -> Tensor:
    """Sines in the first half of a row and cosines in the second: transformers' values, in vector operations."""
    import numpy as np
    import torch

    positions, width = table.weight.shape
    periods = np.power(10000, 2 * (np.arange(width) // 2) / width)
    table_of_sinusoids = torch.empty(positions, width, dtype=table.weight.dtype)
    for start in range(0, positions, _POSITIONS_AT_ONCE):
        angles = np.arange(start, min(positions, start + _POSITIONS_AT_ONCE))[:, None] / periods
        halves = np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], axis=1)
        table_of_sinusoids[start : start + len(angles)] = torch.from_numpy(halves.astype(np.float32))
    return table_of_sinusoids
