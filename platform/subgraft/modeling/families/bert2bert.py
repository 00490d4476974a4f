# mypy: allow-untyped-calls
"""BERT2BERT (Rothe et al., TACL 2020, sections 2 and 3): an encoder-decoder whose sides are initialised from one BERT.

The decoder is the BERT with a causal mask, its masked language modelling head, and new cross-attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.assembly import BERT2BERT
from subgraft.modeling.families.bert import Bert, Electra, head_size, stack_projections, stack_size
from subgraft.modeling.families.family import Family
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat
from subgraft.modeling.families.xlm_roberta import XLMRoberta

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


# What either side may be.
STACKS: Mapping[str, Bert] = {stack.model_type: stack for stack in (Bert(), XLMRoberta(), Electra())}


class Bert2Bert(Family):
    """Each side has a separate configuration and separate embeddings."""

    model_type = BERT2BERT
    objectives = frozenset({"translation"})
    # For classifying sentences: nothing here reads what it makes.
    absent_weights = ("encoder.pooler.",)

    def check(self, config: Config) -> None:
        parts = [config.get(side) or {} for side in self.sides]
        kinds, widths = ({part.get(name) for part in parts} for name in ("model_type", "hidden_size"))
        if len(kinds) != 1 or not kinds <= STACKS.keys() or len(widths) != 1:
            raise UserError(
                "only encoder-decoders of two BERTs of one width are supported, or of two XLM-RoBERTas or ELECTRAs"
            )
        for part in parts:
            Bert().check(part)

    def position_limit(self, config: Config) -> int | None:
        limits = [STACKS[config[side]["model_type"]].position_limit(config[side]) for side in self.sides]
        return min(limit for limit in limits if limit is not None)

    def layers(self, config: Config, side: SideName) -> int:
        return int(config[side]["num_hidden_layers"])

    def width(self, config: Config) -> int:
        return int(config["decoder"]["hidden_size"])

    def embedding_width(self, config: Config) -> int:
        return STACKS[config["decoder"]["model_type"]].embedding_width(config["decoder"])

    def inner_width(self, config: Config) -> int:
        return max(int(config[side]["intermediate_size"]) for side in self.sides)

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        return {side: int(config[side]["vocab_size"]) for side in self.sides}

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        changed = deepcopy(dict(config))
        for name, size in sizes.items():
            changed[name]["vocab_size"] = size
        return changed

    def body_parameters(self, config: Config) -> Parameters:
        decoder = stack_size(config["decoder"], parameter_counts.decoder_layer) + head_size(config["decoder"])
        total = stack_size(config["encoder"], parameter_counts.encoder_layer) + decoder
        return Parameters(total, total)

    def table_sizes(self, config: Config) -> list[TableSize]:
        width = self.embedding_width(config)
        tables = [TableSize(frozenset({side}), rows * width) for side, rows in self.vocabulary_sizes(config).items()]
        return tables + STACKS[config["decoder"]["model_type"]].head_tables(config["decoder"])

    def projections(self, config: Config) -> list[Projection]:
        return stack_projections(config["encoder"]) + stack_projections(config["decoder"], attentions=2)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        return Bert().sequence_format(config, source, target, languages)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import EncoderDecoderModel

        return EncoderDecoderModel

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
        return STACKS[decoder.config.model_type].transform(decoder)

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        from subgraft.modeling.families.table_replacement import exchange

        decoder: Any = model.decoder
        stack = STACKS[decoder.config.model_type]
        for name, new in tables.items():
            stack.check_padding(self.side_config(model, name).pad_token_id, new.padding_id)
        for name, new in tables.items():
            exchange(self, model, name, new)
        if "decoder" in tables:
            stack.name_bias(decoder, self.side(model, "decoder").tied)
        return model
