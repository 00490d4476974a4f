"""Further heads on the body of a model. They share its parameters, and its directory has their weights in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.modeling.heads import head_of

# The heads of further tasks or objectives, in the directory of the model whose body they share.
HEADS = "heads.safetensors"
_METADATA_KEY = "tasks"


def share_parameters(models: Iterable[PreTrainedModel]) -> None:
    """Replace parameters in the same memory by one parameter: `with_head` does not copy the pretrained ones."""
    known: dict[int, nn.Parameter] = {}
    for model in models:
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                module.register_parameter(name, known.setdefault(parameter.data_ptr(), parameter))


def write_heads(
    base_model: PreTrainedModel, heads: Mapping[str, tuple[PreTrainedModel, Mapping[str, Any]]], directory: Path
) -> None:
    """Write the parameters of models that share the body of `base_model` and that `base_model` does not have.

    Parameters are named NAME.PARAMETER. The metadata has the description of each model by its name.
    """
    shared = {id(parameter) for parameter in base_model.parameters()}
    tensors = {
        f"{name}.{parameter_name}": parameter.detach().cpu().contiguous()
        for name, (model, _) in heads.items()
        for parameter_name, parameter in model.named_parameters()
        if id(parameter) not in shared
    }
    descriptions = {name: dict(description) for name, (_, description) in heads.items()}
    save_file(tensors, directory / HEADS, {_METADATA_KEY: json.dumps(descriptions)})


def saved_heads(directory: Path) -> dict[str, dict[str, Any]]:
    """The description of each further head in a directory, by name; none where it has no such file."""
    if not (directory / HEADS).is_file():
        return {}
    with safe_open(directory / HEADS, "pt") as file:
        descriptions: dict[str, dict[str, Any]] = json.loads((file.metadata() or {}).get(_METADATA_KEY, "{}"))
    return descriptions


def load_weights(headed: PreTrainedModel, weights: Mapping[str, Tensor], directory: Path) -> None:
    """Give a model the weights of its further head. Raises UserError for weights of other sizes."""
    try:
        headed.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise UserError(f"the heads do not fit the model: {error}", where=str(directory / HEADS)) from error


def read_head(directory: Path, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and the weights of a further head. Raises UserError if the directory has no such head."""
    if not (directory / HEADS).is_file():
        raise UserError(f"no {HEADS}: the model was not trained on several tasks", where=str(directory))
    descriptions = saved_heads(directory)
    if name not in descriptions:
        raise UserError(
            f"no head of '{name}'", where=str(directory / HEADS), hint=f"It has: {', '.join(descriptions)}."
        )
    with safe_open(directory / HEADS, "pt") as file:
        prefix = f"{name}."
        keys = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118 (not a mapping)
        return descriptions[name], {key.removeprefix(prefix): file.get_tensor(key) for key in keys}


def write_heads_of_objectives(
    base_model: PreTrainedModel, headed: Mapping[str, PreTrainedModel], directory: Path
) -> None:
    """Write the heads of pretraining objectives, by kind, next to the model whose body they share."""
    heads = dict[str, tuple[PreTrainedModel, Mapping[str, Any]]]()
    for kind, model in headed.items():
        head = head_of(model)
        assert head is not None
        heads[kind] = model, {"objective": kind, "head": head.kind, "labels": list(head.labels)}
    if heads:
        write_heads(base_model, heads, directory)
