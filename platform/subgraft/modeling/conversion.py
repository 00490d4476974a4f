"""Conversion of models with weights in PyTorch's pickle format to safetensors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from transformers import PreTrainedModel

from subgraft.base.errors import OperationalError, SubgraftError, UserError
from subgraft.base.limits import CONVERSION_SECONDS
from subgraft.modeling.hub import CONFIGURATION, VOCABULARY_FILES, family_at
from subgraft.modeling.load import load_body, load_model, save_without_tokenizers
from subgraft.modeling.torch_weights import conversion_seconds
from subgraft.modeling.weights import TORCH_INDEX, TORCH_WEIGHTS, torch_files

# The limit of wall time: the start of torch, and a multiple of the CPU time for a busy machine or a slow disk.
START_SECONDS, PATIENCE = 60, 10


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        parameters: The model's number of parameters.
        left_out: Names of tensors in the files that are not part of the model.
    """

    parameters: int
    left_out: tuple[str, ...]


def convert(directory: Path, out: Path) -> Conversion:
    """Write the model to `out`, an empty directory: weights as safetensors, other files unchanged.

    A separate process reads the files (`torch_weights`). The model is then loaded like any other, so a successful
    conversion is usable. Takes memory for two copies of the model.

    Raises:
        UserError: The family is not supported (before any weights are read), the directory has no such weights, they
            contain more than tensors, or weights are missing.
    """
    family_at(directory, body=True)
    if not torch_files(directory):
        message = f"neither {TORCH_WEIGHTS} nor {TORCH_INDEX} is here"
        raise UserError(message, where=str(directory), hint="There is nothing here to convert.")
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=out) as name_of_folder:
        folder = Path(name_of_folder)
        _rewrite(directory, folder)
        for name in CONFIGURATION:
            if (directory / name).is_file():
                shutil.copyfile(directory / name, folder / name)
        names = _tensor_names(folder)
        model = _load(folder)
        save_without_tokenizers(model, out)
    for name in VOCABULARY_FILES:
        if (directory / name).is_file():
            (out / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(directory / name, out / name)
    left_out = sorted(names - set(model.state_dict()))
    return Conversion(model.num_parameters(), tuple(left_out))


def _load(directory: Path) -> PreTrainedModel:
    """The model of a directory, or only its body if it was pretrained without a head that predicts tokens."""
    try:
        family_at(directory)
    except UserError:
        return load_body(directory)
    return load_model(directory)


def _rewrite(directory: Path, out: Path) -> None:
    seconds = conversion_seconds(torch_files(directory))
    # -P: `-m` alone would look for code in the current directory first.
    command = [sys.executable, "-P", "-m", "subgraft.modeling.torch_weights"]
    command += [str(directory.absolute()), str(out), str(os.getpid())]
    try:
        process = subprocess.run(
            command,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
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


def _tensor_names(directory: Path) -> set[str]:
    names: set[str] = set()
    for path in directory.glob("*.safetensors"):
        with safe_open(path, framework="pt") as stored:
            names.update(stored.keys())
    return names
