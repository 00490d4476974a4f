"""Weights in PyTorch's pickle format: read as tensors only, and written as safetensors, in a separate process.

    python -P -m subgraft.base.security.torch_weights OUT PARENT < FILES

PyTorch's reader executes only those pickle instructions that create tensors (`weights_only`). The separate process is a
second line of defence: it reads the files of a JSON list and writes to one folder. A pickle can demand any amount of
time and memory, so the operating system limits both. The process ends when PARENT ends.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.constants import SAFETENSORS_INDEX_FILE
from safetensors.torch import save_file
from torch import Tensor

from subgraft.base.errors import OperationalError, SubgraftError, UserError
from subgraft.base.security.limited_process import end_with_parent, limit_memory, limit_processor_time
from subgraft.base.security.limits import CONVERSION_MEMORY, CONVERSION_SECONDS
from subgraft.base.security.terminal_escaping import say

# The copies of a file in memory: PyTorch's, the copied tensors, safetensors' bytes, and the allocator's overhead.
COPIES_IN_MEMORY = 4
GIGABYTE = 10**9
# The limit of wall time: the start of torch, and a multiple of the CPU time for a busy machine or a slow disk.
START_SECONDS, PATIENCE = 60, 10
# The largest number of names of one tensor: embeddings may be input and output of both sides.
MOST_NAMES = 16
_GLOBAL = re.compile(r"GLOBAL ([\w.]{1,200})")
_TENSORS_ALONE = "A file of weights contains tensors and their names; nothing else is unpickled."
_DAMAGED = "It may be damaged, or cut short: compare its size and digest with the published ones."


def rewrite_apart(files: Sequence[Path], out: Path) -> None:
    """Write the tensors of files of one model to `out` as safetensors, with an index, in a separate process.

    Raises UserError if a file contains more than tensors or needs too much time or memory, OperationalError if the
    process is killed.
    """
    seconds, directory = _processor_seconds(files), files[0].parent
    # -P: `-m` alone would look for code in the current directory first.
    command = [sys.executable, "-P", "-m", __name__, str(out), str(os.getpid())]
    try:
        process = subprocess.run(
            command,
            stderr=subprocess.PIPE,
            input=json.dumps([str(file.absolute()) for file in files]),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
            check=False,
            timeout=START_SECONDS + PATIENCE * seconds,
        )
    except subprocess.TimeoutExpired:
        raise _timeout_error(directory, OperationalError) from None
    if process.returncode == UserError.exit_code:
        reported: Mapping[str, str] = json.loads(process.stderr.splitlines()[-1])
        raise UserError(reported["what"], where=reported["where"], hint=reported["hint"])
    if process.returncode == -signal.SIGXCPU:
        raise _timeout_error(directory, UserError)
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or [""])[-1]
        raise OperationalError(
            f"the process that reads the weights ended with {process.returncode}: {last_line}",
            where=str(directory),
            hint="It may have been killed for lack of memory: it needs up to four times the largest file of weights.",
        )


def _timeout_error(directory: Path, kind: type[SubgraftError]) -> SubgraftError:
    return kind("its weights take too long to read", where=str(directory), hint=CONVERSION_SECONDS.hint)


def _rewrite(files: Sequence[Path], out: Path) -> None:
    file_of_tensor: dict[str, str] = {}
    for number, path in enumerate(files, 1):
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        tensors = read_tensors(path)
        _write(tensors, out / name, path)
        file_of_tensor |= dict.fromkeys(tensors, name)
    (out / SAFETENSORS_INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": file_of_tensor}))


def _write(tensors: Mapping[str, Tensor], target: Path, path: Path) -> None:
    try:
        save_file(_unshared(tensors), target, metadata={"format": "pt"})
    except OSError:
        raise
    except MemoryError as error:
        raise _load_error(path, error) from error
    except Exception as error:  # a type of numbers or a kind of view that safetensors does not know
        what = f"its tensors cannot be written as safetensors ({type(error).__name__})"
        raise UserError(what, where=str(path), hint="Save the model once with its weights as dense tensors.") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name.

    Raises UserError if the file is damaged, contains anything else, or its tensors are larger than the file.
    """
    size = path.stat().st_size
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch's, pickle's, or any other
        raise _load_error(path, error) from error
    if not isinstance(tensors, Mapping):
        raise UserError("does not contain tensors by name", where=str(path))
    for name, value in tensors.items():
        # Only names are shown, shortened: the text of nested values may exceed memory.
        if not isinstance(name, str):
            raise UserError(f"a name is of type {type(name).__name__}", where=str(path), hint=_TENSORS_ALONE)
        if not isinstance(value, Tensor):
            raise UserError(f"{name[:100]!r} is not a tensor", where=str(path), hint="A training state is not a model.")
        _require_plain(name[:100], value, path)
    _require_no_growth(tensors, path, size)
    return dict(tensors)


def _load_error(path: Path, error: Exception) -> UserError:
    """The error for an unreadable file, without PyTorch's advice to allow the file to run code."""
    message = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in message or "bad_alloc" in message:
        return UserError("needs more memory than weights of its size", where=str(path), hint=CONVERSION_MEMORY.hint)
    if global_name := _GLOBAL.search(message):
        what, hint = f"it names {global_name[1]}, which does not create a tensor", _TENSORS_ALONE
    elif "Weights only load failed" in message:
        what, hint = "it has instructions that do not create tensors", _TENSORS_ALONE
    else:
        what, hint = f"PyTorch did not write this file ({type(error).__name__})", _DAMAGED
    return UserError(f"cannot be read as tensors alone: {what}", where=str(path), hint=hint)


def _require_plain(name: str, tensor: Tensor, path: Path) -> None:
    """Raises UserError for a tensor that is not a dense array of numbers in the file."""
    plain = (
        tensor.layout == torch.strided and tensor.device.type == "cpu" and not (tensor.is_quantized or tensor.is_nested)
    )
    if not plain:
        what = f"{name!r} is not a tensor of plain numbers ({tensor.layout}, {tensor.dtype}, {tensor.device})"
        raise UserError(what, where=str(path), hint="Save the model once with its weights as dense tensors.")
    if _bytes(tensor) > tensor.untyped_storage().nbytes():
        what = f"{name!r} has {tensor.numel():,} numbers, and {tensor.untyped_storage().nbytes():,} bytes for them"
        raise UserError(what, where=str(path), hint="Save the model once with each tensor made contiguous.")


def _require_no_growth(tensors: Mapping[str, Tensor], path: Path, size: int) -> None:
    """Raises UserError if the tensors are larger than the file, or their copies in safetensors many times larger."""
    storages: dict[int, Any] = {
        storage.untyped_storage().data_ptr(): storage.untyped_storage() for storage in tensors.values()
    }
    stored, written = sum(storage.nbytes() for storage in storages.values()), sum(map(_bytes, tensors.values()))
    if stored > size or written > MOST_NAMES * size:
        what = f"its tensors have {max(stored, written):,} bytes, and the file {size:,}"
        hint = f"Save the model once uncompressed; the same numbers may have {MOST_NAMES} names at most."
        raise UserError(what, where=str(path), hint=hint)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor contiguous in separate memory, as safetensors requires."""
    seen: set[int] = set()
    unshared: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        shares = tensor.untyped_storage().data_ptr() in seen
        seen.add(tensor.untyped_storage().data_ptr())
        unshared[name] = tensor.clone(memory_format=torch.contiguous_format) if shares else tensor.contiguous()
    return unshared


def _processor_seconds(files: Sequence[Path]) -> int:
    """The limit of CPU time, in seconds, for reading and writing all files."""
    size = sum(path.stat().st_size for path in files)
    return CONVERSION_SECONDS.value * max(1, math.ceil(size / GIGABYTE))


def main() -> int:
    """Rewrite files of weights within limits; a UserError becomes a line of JSON on standard error."""
    out, parent = Path(sys.argv[1]), int(sys.argv[2])
    end_with_parent(parent)
    files = [Path(name) for name in json.load(sys.stdin)]
    try:
        torch.set_num_threads(1)  # stacks of other threads would count as memory
        limit_processor_time(_processor_seconds(files))
        limit_memory(COPIES_IN_MEMORY * max(path.stat().st_size for path in files) + CONVERSION_MEMORY.value)
        _rewrite(files, out)
    except UserError as error:
        say(json.dumps({"what": error.what, "where": error.where, "hint": error.hint}), to=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
