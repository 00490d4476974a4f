# mypy: allow-untyped-calls
"""Replaces the embeddings of models: in place, or by reconstructing the model with the new tensors."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from subgraft.config.settings_base import SideName
from subgraft.modeling.families.family import Family, separate_tables_error
from subgraft.modeling.families.model_parts import Tables


def replace_tensors(family: Family, model: PreTrainedModel, name: SideName, new: Tables) -> None:
    """Replace the tensors of one side in its modules, and update sizes and padding ids."""
    old, config = family.side(model, name), family.side_config(model, name)
    old.input.weight = nn.Parameter(new.input.detach())
    old.input.num_embeddings = config.vocab_size = len(new.input)
    for module in (model, model.base_model):
        if "vocab_size" in vars(module):  # some classes compute losses with it, not with their configuration's
            vars(module)["vocab_size"] = len(new.input)
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


def replace_input_embeddings(
    family: Family, model: PreTrainedModel, tables: Mapping[SideName, Tables]
) -> PreTrainedModel:
    """Replace the input embeddings of a model with a classifying head, which has one table and no output projection.

    Raises UserError, before any change, if its sides would get tables of their own or the family refuses the padding.
    """
    new = next(iter(tables.values()))
    if tables.keys() != set(family.sides) or any(each.input is not new.input for each in tables.values()):
        raise separate_tables_error(family.model_type)
    family.check_padding(model.config.pad_token_id, tables["decoder"].padding_id)
    old, weight = family.input_table(model, "decoder").weight, nn.Parameter(new.input.detach())
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.weight is old:
            module.weight, module.num_embeddings = weight, len(weight)
            module.padding_idx = None if module.padding_idx is None else tables["decoder"].padding_id
        if "vocab_size" in vars(module):
            vars(module)["vocab_size"] = len(weight)
    model.config.vocab_size, model.config.pad_token_id = len(weight), tables["decoder"].padding_id
    family.post_init(model)
    return model


def current_tables(family: Family, model: PreTrainedModel, name: SideName) -> Tables:
    """The current tensors of a side."""
    side = family.side(model, name)
    output = None if side.output is None or side.tied else side.output.weight
    bias = None if side.bias is None else side.bias.flatten()
    return Tables(side.input.weight, output, bias, side.padding_id)


def rebuild(
    model: PreTrainedModel,
    kind: type[PreTrainedModel],
    config: PreTrainedConfig,
    encoder: Tables,
    decoder: Tables,
    shared: bool,
) -> PreTrainedModel:
    """The model as another class: constructed on the meta device, then assigned the old tensors and the new embeddings.

    It supports models with the module names of BART. shared: whether encoder and decoder share one embedding matrix.
    """
    with torch.device("meta"), no_init_weights():
        rebuilt_model: PreTrainedModel = kind(config)
    state: dict[str, Tensor] = dict(model.state_dict())
    state.pop("model.shared.weight", None)
    output = decoder.input if decoder.output is None else decoder.output
    state["model.encoder.embed_tokens.weight"] = encoder.input.detach()
    state["model.decoder.embed_tokens.weight"] = decoder.input.detach()
    state["lm_head.weight"] = output.detach()
    if shared:
        state["model.shared.weight"] = decoder.input.detach()
    if decoder.bias is not None:
        state["final_logits_bias"] = decoder.bias.detach().reshape(1, -1)
    rebuilt_model.load_state_dict(state, assign=True)
    for name, tensor in model.named_buffers():
        if name not in state:  # computed buffers, which the meta device does not have
            rebuilt_model.get_submodule(name.rpartition(".")[0]).register_buffer(name.rpartition(".")[2], tensor, False)
    rebuilt_model.tie_weights()
    rebuilt_model.generation_config = copy.deepcopy(model.generation_config)
    rebuilt_model.train(model.training)
    return rebuilt_model
