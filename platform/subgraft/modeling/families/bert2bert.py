# mypy: allow-untyped-calls
"""BERT2BERT (Rothe et al., TACL 2020, sections 2 and 3): an encoder-decoder whose sides are initialised from one
masked language model.

The decoder is the model with a causal mask, its masked language modelling head, and new cross-attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import BERT2BERT, EncoderOnly
from subgraft.modeling.families.family import Family
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Bert2Bert(Family):
    """Each side has a separate configuration and separate embeddings.

    encoders: the supported families of its sides.
    """

    model_type = BERT2BERT
    objectives = frozenset({"translation"})
    # The pooler is for classification of sentences, and is never used here.
    absent_weights = ("encoder.pooler.",)
    transformers_class = "EncoderDecoderModel"

    def __init__(self, encoders: Iterable[EncoderOnly]) -> None:
        self._encoders = {encoder.model_type: encoder for encoder in encoders}

    def _encoder(self, config: Config) -> EncoderOnly:
        """The family of both sides."""
        return self._encoders[config["decoder"]["model_type"]]

    def check(self, config: Config) -> None:
        parts = [config.get(side) or {} for side in self.sides]
        kinds, widths = ({part.get(name) for part in parts} for name in ("model_type", "hidden_size"))
        if len(kinds) != 1 or not kinds <= self._encoders.keys() or len(widths) != 1:
            known = ", ".join(self._encoders)
            raise UserError(f"only encoder-decoders of two encoders of one width and one family are supported: {known}")
        for part in parts:
            self._encoder(config).check_segments(part)

    def position_limit(self, config: Config) -> int | None:
        limits = [self._encoder(config).position_limit(config[side]) for side in self.sides]
        return min(limit for limit in limits if limit is not None)

    def layers(self, config: Config, side: SideName) -> int:
        return self._encoder(config).layers(config[side], "encoder")

    def width(self, config: Config) -> int:
        return self._encoder(config).width(config["decoder"])

    def embedding_width(self, config: Config) -> int:
        return self._encoder(config).embedding_width(config["decoder"])

    def inner_width(self, config: Config) -> int:
        return max(self._encoder(config).inner_width(config[side]) for side in self.sides)

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        return {side: int(config[side]["vocab_size"]) for side in self.sides}

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        changed = deepcopy(dict(config))
        for name, size in sizes.items():
            changed[name]["vocab_size"] = size
        return changed

    def body_parameters(self, config: Config) -> Parameters:
        family = self._encoder(config)
        total = family.stack_parameters(config["encoder"], parameter_counts.encoder_layer)
        total += family.stack_parameters(config["decoder"], parameter_counts.decoder_layer)
        total += family.head_parameters(config["decoder"])
        return Parameters(total, total)

    def table_sizes(self, config: Config) -> list[TableSize]:
        width = self.embedding_width(config)
        tables = [TableSize(frozenset({side}), rows * width) for side, rows in self.vocabulary_sizes(config).items()]
        return tables + self._encoder(config).head_tables(config["decoder"])

    def projections(self, config: Config) -> list[Projection]:
        family = self._encoder(config)
        return family.stack_projections(config["encoder"]) + family.stack_projections(config["decoder"], attentions=2)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        return next(iter(self._encoders.values())).sequence_format(config, source, target, languages)

    def post_init(self, model: PreTrainedModel) -> None:
        """Remove the encoder's pooler, which transformers always constructs, and the paths that the parts came from.

        transformers would write these paths into config.json.
        """
        encoder: Any = model.get_encoder()
        encoder.pooler = None
        for side in self.sides:
            self.side_config(model, side)._name_or_path = ""

    def side_config(self, model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
        config: PreTrainedConfig = getattr(model.config, name)
        return config

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        table: nn.Embedding = getattr(model, name).get_input_embeddings()
        return table

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        decoder: Any = model.decoder
        return self._encoders[decoder.config.model_type].transform(decoder)

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        from subgraft.modeling.families.table_replacement import replace_tensors

        decoder: Any = model.decoder
        family = self._encoders[decoder.config.model_type]
        for name, new in tables.items():
            family.check_padding(self.side_config(model, name).pad_token_id, new.padding_id)
        for name, new in tables.items():
            replace_tensors(self, model, name, new)
        if "decoder" in tables:
            family.rename_bias(decoder, self.side(model, "decoder").tied)
        return model
