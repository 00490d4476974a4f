# mypy: allow-untyped-calls
"""An encoder-decoder whose two sides begin as one BERT: BERT2BERT of Rothe et al. (TACL 2020, sections 2 and 3).

The decoder is the BERT with a causal mask, its masked language modelling head, and attention to the encoder, which is
the one thing that is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from subgraft.errors import UserError
from subgraft.models.families import counting
from subgraft.models.families.bert import Bert, head_size, head_tables, name_bias_twice, prediction_head, stack_size
from subgraft.models.families.family import Config, Family, Parameters, SequenceFormat, Tables, TableSize

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.base import SideName
    from subgraft.config.corpora import Languages
    from subgraft.vocabulary.tokenizer import Tokenizer

# transformers' EncoderDecoderModel, here always of two BERTs.
BERT2BERT = "encoder-decoder"


class Bert2Bert(Family):
    """Each side has a configuration and tables of its own."""

    model_type = BERT2BERT
    objectives = frozenset({"translation"})
    # For classifying sentences: nothing here reads what it makes.
    absent_weights = ("encoder.pooler.",)

    def check(self, config: Config) -> None:
        parts = [config.get(side) or {} for side in self.sides]
        if any(part.get("model_type") != "bert" for part in parts) or len({p.get("hidden_size") for p in parts}) != 1:
            raise UserError("an encoder-decoder of other parts than two BERTs of one width is not known")

    def position_limit(self, config: Config) -> int | None:
        return min(int(config[side]["max_position_embeddings"]) for side in self.sides)

    def layers(self, config: Config, side: SideName) -> int:
        return int(config[side]["num_hidden_layers"])

    def width(self, config: Config) -> int:
        return int(config["decoder"]["hidden_size"])

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
        decoder = stack_size(config["decoder"], counting.decoder_layer) + head_size(config["decoder"])
        total = stack_size(config["encoder"], counting.encoder_layer) + decoder
        return Parameters(total, total)

    def table_sizes(self, config: Config) -> list[TableSize]:
        width = self.width(config)
        tables = [TableSize(frozenset({side}), rows * width) for side, rows in self.vocabulary_sizes(config).items()]
        return tables + head_tables(config["decoder"])

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages
    ) -> SequenceFormat:
        return Bert().sequence_format(config, source, target, languages)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import EncoderDecoderModel

        return EncoderDecoderModel

    def put_right(self, model: PreTrainedModel) -> None:
        """Take the encoder's pooler away, which transformers constructs whether a file has its weights or not.

        Nor is it part of the model where a part of it lay before, which transformers would write into config.json.
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

    def transform(self, model: PreTrainedModel) -> nn.Module | None:
        return Bert().transform(model.decoder)  # type: ignore[arg-type]

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        from subgraft.models.families.replacing import exchange

        for name, new in tables.items():
            exchange(self, model, name, new)
        if "decoder" in tables:
            name_bias_twice(prediction_head(model.decoder), self.side(model, "decoder").tied)  # type: ignore[arg-type]
        return model


def assembled(bert: Config) -> dict[str, Any]:
    """The configuration of the encoder-decoder that is made of a BERT."""
    part = {key: value for key, value in bert.items() if key != "architectures"}
    return {
        "model_type": BERT2BERT,
        "encoder": dict(part),
        "decoder": {**part, "is_decoder": True, "add_cross_attention": True},
        "tie_word_embeddings": bert.get("tie_word_embeddings", True),
    }


def assemble(bert: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
    """The encoder-decoder made from a BERT, in evaluation mode; its new weights are a function of the seed alone.

    tokenizer: the BERT's, of both sides. Raises UserError where it has no beginning, end or padding.
    """
    import torch
    from transformers import BertConfig, BertLMHeadModel, BertModel, EncoderDecoderConfig, EncoderDecoderModel

    ids = _token_ids(tokenizer)
    described = {**bert.config.to_dict(), "pad_token_id": ids["pad_token_id"]}
    for derived in ("model_type", "architectures", "is_decoder", "add_cross_attention", "_name_or_path"):
        described.pop(derived, None)
    encoder_config = BertConfig(**described)
    decoder_config = BertConfig(**described, is_decoder=True, add_cross_attention=True)
    whole: dict[str, Any] = {**ids, "tie_word_embeddings": encoder_config.tie_word_embeddings}
    config = EncoderDecoderConfig(encoder=encoder_config.to_dict(), decoder=decoder_config.to_dict(), **whole)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = BertModel(encoder_config, add_pooling_layer=False)
        model = EncoderDecoderModel(config, encoder, BertLMHeadModel(decoder_config))
    model.encoder.load_state_dict(bert.bert.state_dict())  # type: ignore[union-attr]
    new = model.decoder.load_state_dict(bert.state_dict(), strict=False).missing_keys
    assert all(".crossattention." in name for name in new)
    for name, token in ids.items():
        setattr(model.generation_config, name, token)
    # Without a limit of its own, generate stops after 20 tokens.
    model.generation_config.max_length = encoder_config.max_position_embeddings
    model.eval()
    return model


def _token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """What generation is told: it begins as a BERT's sentences do."""
    missing = [role for role in ("pad", "bos", "eos") if role not in tokenizer.special]
    if missing:
        raise UserError(f"the vocabulary of this BERT has no special token for: {', '.join(missing)}")
    begin, end = tokenizer.special["bos"], tokenizer.special["eos"]
    return {
        "pad_token_id": tokenizer.special["pad"],
        "bos_token_id": begin,
        "eos_token_id": end,
        "decoder_start_token_id": begin,
    }
