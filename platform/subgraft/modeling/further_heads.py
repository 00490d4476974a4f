"""Further heads on the body of a model: its parameters are shared, and its directory has their weights in one file."""

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

# The heads of further tasks or objectives, in the directory of the model whose body they share.
HEADS = "heads.safetensors"
_DESCRIBED = "tasks"


def share_parameters(models: Iterable[PreTrainedModel]) -> None:
    """Make one parameter of those that lie in the same memory: the pretrained ones, which `with_head` does not copy."""
    known: dict[int, nn.Parameter] = {}
    for model in models:
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                module.register_parameter(name, known.setdefault(parameter.data_ptr(), parameter))


def write_heads(
    own: PreTrainedModel, further: Mapping[str, tuple[PreTrainedModel, Mapping[str, Any]]], directory: Path
) -> None:
    """Write the parameters of models, by name, that `own`, whose body they share, does not have.

    Each parameter is NAME.PARAMETER; the metadata has the description of each model by its name.
    """
    shared = {id(parameter) for parameter in own.parameters()}
    tensors = {
        f"{name}.{parameter_name}": parameter.detach().cpu().contiguous()
        for name, (model, _) in further.items()
        for parameter_name, parameter in model.named_parameters()
        if id(parameter) not in shared
    }
    described = {name: dict(description) for name, (_, description) in further.items()}
    save_file(tensors, directory / HEADS, {_DESCRIBED: json.dumps(described)})


def saved_heads(directory: Path) -> dict[str, dict[str, Any]]:
    """The description of each further head in a directory, by name; none where it has no such file."""
    if not (directory / HEADS).is_file():
        return {}
    with safe_open(directory / HEADS, "pt") as file:
        described: dict[str, dict[str, Any]] = json.loads((file.metadata() or {}).get(_DESCRIBED, "{}"))
    return described


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
    described = saved_heads(directory)
    if name not in described:
        raise UserError(f"no head of '{name}'", where=str(directory / HEADS), hint=f"It has: {', '.join(described)}.")
    with safe_open(directory / HEADS, "pt") as file:
        prefix = f"{name}."
        own = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118 (not a mapping)
        return described[name], {key.removeprefix(prefix): file.get_tensor(key) for key in own}
