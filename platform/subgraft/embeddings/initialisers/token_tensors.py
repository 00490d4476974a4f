"""Directories with tensors of a vocabulary's tokens and the vocabulary itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_FORMAT = 1


def save_token_tensors(
    directory: Path, name: str, tokenizer: Tokenizer, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
) -> None:
    """Write the vocabulary, NAME.safetensors, and NAME.json with the record and the vocabulary's fingerprint."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(directory)
    weights = directory / f"{name}.safetensors"
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, weights)
    weights.chmod(0o644)  # safetensors leaves files that only their owner can read
    full_record = {**record, "format": _FORMAT, "vocabulary": tokenizer.fingerprint}
    (directory / f"{name}.json").write_text(json.dumps(full_record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_token_tensors(
    directory: Path, name: str, what: str, hint: str
) -> tuple[Tokenizer, dict[str, Tensor], dict[str, Any]]:
    """The vocabulary, the tensors and the record that `save_token_tensors` wrote; `what` names them in messages.

    Raises UserError where there are none, or none that this version can read.
    """
    try:
        record = json_io.parse_object((directory / f"{name}.json").read_bytes())
        tensors = load_file(directory / f"{name}.safetensors")
    except (OSError, ValueError, SafetensorError):
        raise UserError(f"no {what} here", where=str(directory), hint=hint) from None
    tokenizer = Tokenizer.load(directory)
    if record.get("format") != _FORMAT or record.get("vocabulary") != tokenizer.fingerprint:
        raise not_of_its_vocabulary(what, directory)
    return tokenizer, tensors, record


def not_of_its_vocabulary(what: str, directory: Path) -> UserError:
    return UserError(f"{what} that do not belong to the vocabulary in the same directory", where=str(directory))
