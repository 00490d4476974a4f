# mypy: allow-untyped-calls
"""The sides of a model: where each family keeps its input table, its output projection and its bias.

This is the only place that knows, but for a BERT's head. Everything else asks for a `Side`, or hands over `Tables`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import MarianMTModel, MBartForConditionalGeneration, PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from subgraft.config.base import SideName
from subgraft.errors import UserError
from subgraft.models.bert2bert import prediction_head
from subgraft.models.split_mbart import SplitMBartConfig, SplitMBartForConditionalGeneration

# transformers' EncoderDecoderModel, here always of two BERTs.
BERT2BERT = "encoder-decoder"
# The one table of a BERT is that of both sides of the encoder-decoder made from it.
SIDES_OF_FAMILY: dict[str, tuple[SideName, ...]] = {
    "marian": ("encoder", "decoder"),
    "mbart": ("encoder", "decoder"),
    "split_mbart": ("encoder", "decoder"),
    "gpt2": ("decoder",),
    "bert": ("encoder", "decoder"),
    BERT2BERT: ("encoder", "decoder"),
}


@dataclass(frozen=True)
class Side:
    """One side of a model, as it is: these are the model's own modules and tensors, not copies.

    input: table [V, d].  output: projection [V, d], None on the encoder.  bias: what is added to the logits, [1, V] or
    [V], where there is one.  tied: the projection is the input table itself.  padding_id: the row that no gradient
    reaches.  transform: what top hidden states go through before the projection, where there is anything.
    """

    name: SideName
    input: nn.Embedding
    output: nn.Linear | None
    bias: Tensor | None
    tied: bool
    padding_id: int | None
    transform: nn.Module | None = None


@dataclass(frozen=True)
class Tables:
    """What a side gets: input [V, d]; output [V, d], None where it is the input table; bias [V], where there is one."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None
    padding_id: int | None


def side_names(model: PreTrainedModel) -> tuple[SideName, ...]:
    """The sides this model has. Raises UserError for a family that is not known."""
    return SIDES_OF_FAMILY[known_family(model.config.model_type)]


def known_family(model_type: str) -> str:
    """The model type itself. Raises UserError, listing the known ones, where it is not among them."""
    if model_type not in SIDES_OF_FAMILY:
        raise UserError(
            f"models of the family {model_type!r} are not known",
            hint=f"Known families: {', '.join(sorted(SIDES_OF_FAMILY))}.",
        )
    return model_type


def side_config(model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
    """The configuration that holds a side's sizes: the model's own, unless each side has one."""
    config: PreTrainedConfig = getattr(model.config, name) if model.config.model_type == BERT2BERT else model.config
    return config


def side(model: PreTrainedModel, name: SideName) -> Side:
    """One side of the model. Raises UserError where the model has no such side."""
    if name not in side_names(model):
        raise UserError(
            f"a {model.config.model_type} model has no {name}", hint=f"Its sides: {', '.join(side_names(model))}."
        )
    table = _input_table(model, name)
    if name == "encoder":
        return Side(name, table, None, None, False, table.padding_idx)
    output = model.get_output_embeddings()
    bias = getattr(model, "final_logits_bias", output.bias)
    tied, padding_id = output.weight is table.weight, side_config(model, name).pad_token_id
    return Side(name, table, output, bias, tied, padding_id, getattr(prediction_head(model), "transform", None))


def tables_of(model: PreTrainedModel, names: Iterable[SideName]) -> dict[str, Tensor]:
    """A model's own tables of some sides: SIDE.input, SIDE.output (perhaps the same), SIDE.bias where it is trained."""
    found: dict[str, Tensor] = {}
    for name in names:
        tables = side(model, name)
        found[f"{name}.input"] = tables.input.weight
        if tables.output is not None:
            found[f"{name}.output"] = tables.output.weight
        if isinstance(tables.bias, nn.Parameter):
            found[f"{name}.bias"] = tables.bias
    return found


def _input_table(model: PreTrainedModel, name: SideName) -> nn.Embedding:
    if model.config.model_type in ("gpt2", "bert"):
        table = model.get_input_embeddings()
    elif model.config.model_type == BERT2BERT:
        table = getattr(model, name).get_input_embeddings()
    else:
        table = getattr(model.model, name).embed_tokens
    assert isinstance(table, nn.Embedding)
    return table


def shares_table(model: PreTrainedModel) -> bool:
    """Whether encoder and decoder read one and the same input table."""
    names = side_names(model)
    return len(names) == 2 and _input_table(model, names[0]).weight is _input_table(model, names[1]).weight


def set_padding(model: PreTrainedModel) -> None:
    """Give the encoder its own padding row, where `encoder_pad_token_id` says that it differs from the decoder's.

    transformers has one `pad_token_id`, and constructs both tables with it.
    """
    encoder_padding = getattr(model.config, "encoder_pad_token_id", None)
    if encoder_padding is not None:
        _input_table(model, "encoder").padding_idx = encoder_padding


def replace_tables(model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
    """The model with new tables at the given sides; sizes and padding ids in its configuration follow.

    The given model is used up: its other weights are moved, not copied. Encoder and decoder go on sharing one table
    only where they did and both are given the same tensor; otherwise Marian's are separated and an mBART becomes a
    split one. Tied projections stay tied, untied ones untied. Raises UserError where the padding id of the decoder
    would lie outside the encoder's vocabulary, which transformers cannot construct, and for a BERT whose one table
    would have to be two.
    """
    for name in tables:
        side(model, name)
    if model.config.model_type in ("gpt2", "bert", BERT2BERT):
        return _replace_in_place(model, tables)
    both: dict[SideName, Tables] = {
        name: tables[name] if name in tables else _as_it_is(side(model, name)) for name in side_names(model)
    }
    shared = shares_table(model) and both["encoder"].input is both["decoder"].input
    rebuilt = _rebuild(model, both, shared)
    set_padding(rebuilt)
    return rebuilt


def _as_it_is(side: Side) -> Tables:
    output = None if side.output is None or side.tied else side.output.weight
    bias = None if side.bias is None else side.bias.flatten()
    return Tables(side.input.weight, output, bias, side.padding_id)


def _replace_in_place(model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
    """Families that can be given other tables as they are: the modules' own tensors are exchanged."""
    if model.config.model_type == "bert":
        if len(tables) != 2 or tables["encoder"].input is not tables["decoder"].input:
            raise UserError(
                "a BERT has one table for all it reads and predicts",
                hint="Give both sides one vocabulary, or make an encoder-decoder of it first: `subgraft assemble`.",
            )
        tables = {"decoder": tables["decoder"]}
    for name, new in tables.items():
        _exchange(model, name, new)
    return model


def _exchange(model: PreTrainedModel, name: SideName, new: Tables) -> None:
    old, config = side(model, name), side_config(model, name)
    old.input.weight = nn.Parameter(new.input.detach())
    old.input.num_embeddings = config.vocab_size = len(new.input)
    if old.input.padding_idx is not None:
        old.input.padding_idx = new.padding_id
    config.pad_token_id = new.padding_id
    if old.output is None:
        return
    model.config.pad_token_id = new.padding_id
    output = new.input if new.output is None else new.output
    old.output.weight = old.input.weight if old.tied else nn.Parameter(output.detach())
    old.output.out_features = len(output)
    if new.bias is not None:
        old.output.bias = nn.Parameter(new.bias.detach())
        # A second name of the same bias, or, of an untied model, one that nothing reads but that is saved.
        prediction_head(model).bias = old.output.bias if old.tied else nn.Parameter(new.bias.detach().clone())


def _rebuild(model: PreTrainedModel, both: Mapping[SideName, Tables], shared: bool) -> PreTrainedModel:
    """The same model around other tables: constructed without memory, then given the tensors of the old one."""
    encoder, decoder = both["encoder"], both["decoder"]
    family, config = _rebuilt_config(model, both, shared)
    with torch.device("meta"), no_init_weights():
        rebuilt = family(config)
    state = dict(model.state_dict())
    state.pop("model.shared.weight", None)
    output = decoder.input if decoder.output is None else decoder.output
    state["model.encoder.embed_tokens.weight"] = encoder.input.detach()
    state["model.decoder.embed_tokens.weight"] = decoder.input.detach()
    state["lm_head.weight"] = output.detach()
    if shared:
        state["model.shared.weight"] = decoder.input.detach()
    if decoder.bias is not None:
        state["final_logits_bias"] = decoder.bias.detach().reshape(1, -1)
    rebuilt.load_state_dict(state, assign=True)
    rebuilt.tie_weights()
    rebuilt.generation_config = copy.deepcopy(model.generation_config)
    rebuilt.train(model.training)
    return rebuilt


def _rebuilt_config(
    model: PreTrainedModel, both: Mapping[SideName, Tables], shared: bool
) -> tuple[type[PreTrainedModel], PreTrainedConfig]:
    """The class and the configuration that the model has around other tables."""
    encoder, decoder = both["encoder"], both["decoder"]
    if decoder.padding_id is not None and decoder.padding_id >= len(encoder.input):
        raise UserError(
            f"the padding id of the decoder's vocabulary ({decoder.padding_id}) lies outside the encoder's "
            f"vocabulary of {len(encoder.input)}",
            hint="Use a vocabulary whose padding token has a low id, as `subgraft vocab learn` makes them.",
        )
    described = {
        **model.config.to_dict(),
        "vocab_size": len(encoder.input),
        "decoder_vocab_size": len(decoder.input),
        "pad_token_id": decoder.padding_id,
        "encoder_pad_token_id": encoder.padding_id,
    }
    for derived in ("model_type", "architectures", "auto_map"):
        described.pop(derived, None)
    if model.config.model_type == "marian":
        described["share_encoder_decoder_embeddings"] = shared
        return MarianMTModel, type(model.config)(**described)
    if shared:
        del described["decoder_vocab_size"], described["encoder_pad_token_id"]
        return MBartForConditionalGeneration, type(model.config)(**described)
    return SplitMBartForConditionalGeneration, SplitMBartConfig(**described)
