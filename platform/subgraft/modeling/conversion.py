"""Conversion of models with weights in PyTorch's pickle format to safetensors."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from subgraft.base.errors import UserError
from subgraft.base.security.torch_weights import rewrite_apart
from subgraft.modeling.hub import CONFIGURATION, VOCABULARY_FILES, family_at
from subgraft.modeling.load import load_body, load_model, save_without_tokenizers
from subgraft.modeling.weights import TORCH_INDEX, TORCH_WEIGHTS, torch_files


@dataclass(frozen=True)
class Conversion:
    """The model's number of parameters, and the names of tensors in the files that are not part of the model."""

    parameters: int
    left_out: tuple[str, ...]


def convert(directory: Path, out: Path) -> Conversion:
    """Write the model to `out`, an empty directory: weights as safetensors, other files unchanged.

    A separate process reads the weights. The model is then loaded like any other, so a successful conversion is usable.
    Takes memory for two copies of the model.

    Raises:
        UserError: The family is not supported (before any weights are read), the directory has no such weights, they
            contain more than tensors, or weights are missing.
    """
    family_at(directory, body=True)
    files = torch_files(directory)
    if not files:
        message = f"neither {TORCH_WEIGHTS} nor {TORCH_INDEX} is here"
        raise UserError(message, where=str(directory), hint="There is nothing here to convert.")
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=out) as name_of_folder:
        folder = Path(name_of_folder)
        rewrite_apart(files, folder)
        for name in CONFIGURATION:
            if (directory / name).is_file():
                shutil.copyfile(directory / name, folder / name)
        names = set[str]()
        for path in folder.glob("*.safetensors"):
            with safe_open(path, framework="pt") as stored:
                names.update(stored.keys())
        try:
            family_at(folder)
        except UserError:  # it was pretrained without a head that predicts tokens
            model = load_body(folder)
        else:
            model = load_model(folder)
        save_without_tokenizers(model, out)
    for name in VOCABULARY_FILES:
        if (directory / name).is_file():
            (out / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(directory / name, out / name)
    left_out = sorted(names - set(model.state_dict()))
    return Conversion(model.num_parameters(), tuple(left_out))
