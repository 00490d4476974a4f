"""Weights in PyTorch's pickle format: read as tensors only, and written as safetensors.

This runs in a separate process with limited time and memory (`weights_process`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.base.limits import CONVERSION_MEMORY
from subgraft.modeling.weights import INDEX

# Names that the same numbers may have: a model's largest table is input and output of both sides.
MOST_NAMES = 16
_GLOBAL = re.compile(r"GLOBAL ([\w.]{1,200})")
_TENSORS_ALONE = "A file of weights holds tensors and their names, and nothing else is ever unpickled."
_DAMAGED = "It may be damaged, or cut short: compare its size and digest with the published ones."


def rewrite(files: Sequence[Path], out: Path) -> None:
    """Write the tensors of each file under the same names, with an index. Raises UserError as `read_tensors` does."""
    places: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        tensors = read_tensors(path)
        _write(tensors, out / name, path)
        places |= dict.fromkeys(tensors, name)
    (out / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def _write(tensors: Mapping[str, Tensor], target: Path, path: Path) -> None:
    try:
        save_file(_apart(tensors), target, metadata={"format": "pt"})
    except OSError:
        raise
    except MemoryError as error:
        raise _refused(path, error) from error
    except Exception as error:  # a type of numbers or a kind of view that safetensors does not know
        what = f"its tensors cannot be written as safetensors ({type(error).__name__})"
        raise UserError(what, where=str(path), hint="Save the model once with its weights as dense tensors.") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name.

    Raises UserError if the file is damaged, contains anything else, or its tensors are larger than the file.
    """
    size = path.stat().st_size
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of PyTorch, of pickle, of whatever the file pretends to be
        raise _refused(path, error) from error
    if not isinstance(found, Mapping):
        raise UserError("holds no tensors by name", where=str(path))
    for name, value in found.items():
        # What is shown is of bounded length: the text of nested values may be longer than any memory.
        if not isinstance(name, str):
            raise UserError(f"a name is of type {type(name).__name__}", where=str(path), hint=_TENSORS_ALONE)
        if not isinstance(value, Tensor):
            raise UserError(f"{name[:100]!r} is no tensor", where=str(path), hint="A whole training state is no model.")
        _require_plain(name[:100], value, path)
    _require_no_growth(found, path, size)
    return dict(found)


def _refused(path: Path, error: Exception) -> UserError:
    """The error for an unreadable file, without PyTorch's advice to let the file run code."""
    said = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in said or "bad_alloc" in said:
        return UserError("needs more memory than weights of its size", where=str(path), hint=CONVERSION_MEMORY.hint)
    if named := _GLOBAL.search(said):
        what, hint = f"it names {named[1]}, which makes no tensor", _TENSORS_ALONE
    elif "Weights only load failed" in said:
        what, hint = "it has instructions that make no tensor", _TENSORS_ALONE
    else:
        what, hint = f"it is no file that PyTorch has written ({type(error).__name__})", _DAMAGED
    return UserError(f"cannot be read as tensors alone: {what}", where=str(path), hint=hint)


def _require_plain(name: str, tensor: Tensor, path: Path) -> None:
    """Raises UserError for a tensor that is not a dense array of numbers in the file."""
    plain = (
        tensor.layout == torch.strided and tensor.device.type == "cpu" and not (tensor.is_quantized or tensor.is_nested)
    )
    if not plain:
        what = f"{name!r} is no tensor of plain numbers ({tensor.layout}, {tensor.dtype}, {tensor.device})"
        raise UserError(what, where=str(path), hint="Save the model once with its weights as dense tensors.")
    if _bytes(tensor) > tensor.untyped_storage().nbytes():
        what = f"{name!r} has {tensor.numel():,} numbers, and {tensor.untyped_storage().nbytes():,} bytes for them"
        raise UserError(what, where=str(path), hint="Save the model once with each tensor made contiguous.")


def _require_no_growth(tensors: Mapping[str, Tensor], path: Path, size: int) -> None:
    """Raises UserError if the tensors are larger than the file, or their copies in safetensors many times larger."""
    storages: dict[int, Any] = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors.values()}
    there, written = sum(one.nbytes() for one in storages.values()), sum(map(_bytes, tensors.values()))
    if there > size or written > MOST_NAMES * size:
        what = f"its tensors have {max(there, written):,} bytes, and the file {size:,}"
        hint = f"Save the model once uncompressed; the same numbers may have {MOST_NAMES} names at most."
        raise UserError(what, where=str(path), hint=hint)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor whole and with memory of its own, as safetensors wants them."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        shares = tensor.untyped_storage().data_ptr() in seen
        seen.add(tensor.untyped_storage().data_ptr())
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if shares else tensor.contiguous()
    return apart
