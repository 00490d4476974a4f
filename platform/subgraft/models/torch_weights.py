"""Weights in PyTorch's own form, which is a pickle: read as tensors and nothing else, and written as safetensors.

    python -m subgraft.models.torch_weights DIRECTORY OUT

To be run as a process of its own. PyTorch's reader follows no instruction of a pickle but those that make tensors
(`weights_only`); should that ever fail it, there is nothing here but one file to read and one folder to write to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from subgraft.errors import UserError
from subgraft.models.weights import INDEX, TORCH_INDEX, TORCH_WEIGHTS, read_index
from subgraft.printed import say


def torch_files(directory: Path) -> tuple[Path, ...]:
    """pytorch_model.bin, or the files that its index names; none where there is neither.

    Raises UserError for an index that cannot be read, or that names anything but .bin files beside it.
    """
    if (directory / TORCH_WEIGHTS).is_file():
        return (directory / TORCH_WEIGHTS,)
    if not (directory / TORCH_INDEX).is_file():
        return ()
    return tuple(directory / name for name in sorted(set(read_index(directory / TORCH_INDEX).values())))


def rewrite(directory: Path, out: Path) -> None:
    """The same tensors under the same names, file by file, with an index. Raises UserError as `read_tensors` does."""
    files = torch_files(directory)
    places: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        tensors = read_tensors(path)
        save_file(_apart(tensors), out / name, metadata={"format": "pt"})
        places |= dict.fromkeys(tensors, name)
    (out / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by their names. Raises UserError where it is damaged, or holds anything else."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of PyTorch, of pickle, of whatever the file pretends to be
        hint = "A file of weights holds tensors and their names, and nothing else is ever unpickled."
        raise UserError(f"cannot be read as tensors alone: {_first_line(error)}", where=str(path), hint=hint) from error
    if not isinstance(found, Mapping):
        raise UserError("holds no tensors by name", where=str(path))
    for name, value in found.items():
        if not (isinstance(name, str) and isinstance(value, Tensor)):
            raise UserError(f"{name!r:.100} is no tensor", where=str(path), hint="A whole training state is no model.")
    return dict(found)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor whole and with memory of its own, as safetensors wants them."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        shares = tensor.untyped_storage().data_ptr() in seen
        seen.add(tensor.untyped_storage().data_ptr())
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if shares else tensor.contiguous()
    return apart


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def main() -> int:
    directory, out = map(Path, sys.argv[1:])
    try:
        rewrite(directory, out)
    except UserError as error:
        say(json.dumps({"what": error.what, "where": error.where, "hint": error.hint}), to=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
