# mypy: allow-untyped-calls
"""How many parameters a model has, by its configuration alone: nothing is loaded, and no memory taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from subgraft.config.base import SideName
from subgraft.config.training import ModelSettings
from subgraft.models.bert2bert import without_pooler
from subgraft.models.load import CLASS_OF_FAMILY
from subgraft.models.sides import BERT2BERT, tables_of

Config = Mapping[str, Any]


class Parameters(NamedTuple):
    """trained: those that a whole training changes; the rest are fixed, as Marian's positions are."""

    total: int
    trained: int


def count_parameters(config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
    """Of the model that a config.json describes; tensors that are tied count once. frozen: sides of frozen tables."""
    model = _without_memory(config)
    for table in tables_of(model, frozen).values():
        table.requires_grad_(False)
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return Parameters(sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained))


def _without_memory(config: Config) -> PreTrainedModel:
    family: Any = CLASS_OF_FAMILY[config["model_type"]]
    with torch.device("meta"):
        model: PreTrainedModel = family(family.config_class.from_dict(dict(config)))
    if config["model_type"] == BERT2BERT:
        without_pooler(model)
    return model


def described(model: ModelSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
    """The configuration of a new model, in all that its number of parameters depends on."""
    if model.family == "bert":
        return {
            "model_type": "bert",
            "vocab_size": decoder_size,
            "hidden_size": model.d_model,
            "num_hidden_layers": model.encoder_layers,
            "num_attention_heads": model.attention_heads,
            "intermediate_size": model.ffn_dim,
            "max_position_embeddings": model.max_positions,
        }
    sizes = {"vocab_size": decoder_size}
    if model.family == "marian":
        sizes = {"vocab_size": encoder_size, "decoder_vocab_size": decoder_size}
    return {
        "model_type": model.family,
        "share_encoder_decoder_embeddings": False,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.attention_heads,
        "decoder_attention_heads": model.attention_heads,
        "encoder_ffn_dim": model.ffn_dim,
        "decoder_ffn_dim": model.ffn_dim,
        "max_position_embeddings": model.max_positions,
        # Within the smallest vocabulary there is: a padding row must exist.
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        **sizes,
    }


def as_both_sides(bert: Config) -> dict[str, Any]:
    """The configuration of the encoder-decoder that is made of a BERT."""
    part = {key: value for key, value in bert.items() if key != "architectures"}
    return {
        "model_type": BERT2BERT,
        "encoder": dict(part),
        "decoder": {**part, "is_decoder": True, "add_cross_attention": True},
        "tie_word_embeddings": bert.get("tie_word_embeddings", True),
    }


def vocabulary_sizes(config: Config) -> dict[SideName, int]:
    """How many rows the tables of both sides have."""
    if config["model_type"] == BERT2BERT:
        return {"encoder": config["encoder"]["vocab_size"], "decoder": config["decoder"]["vocab_size"]}
    return {"encoder": config["vocab_size"], "decoder": config.get("decoder_vocab_size") or config["vocab_size"]}


def with_vocabularies(config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
    """The configuration after a transfer, with other vocabularies on the given sides."""
    changed = deepcopy(dict(config))
    if config["model_type"] == BERT2BERT:
        for name, size in sizes.items():
            changed[name]["vocab_size"] = size
        return changed
    both = vocabulary_sizes(config) | dict(sizes)
    changed |= {"vocab_size": both["encoder"], "decoder_vocab_size": both["decoder"]}
    if config["model_type"] == "marian":
        changed["share_encoder_decoder_embeddings"] = False
    else:
        changed["model_type"] = "split_mbart"
    # Their values count nothing; an id beyond a smaller table could not be constructed.
    return changed | {"pad_token_id": 0, "decoder_start_token_id": 0, "encoder_pad_token_id": 0}
