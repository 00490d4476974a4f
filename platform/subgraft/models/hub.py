"""Where a model lies: a directory, or an id on the hub, of which a local copy is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from subgraft.errors import OperationalError, UserError
from subgraft.models.config_file import read_checked
from subgraft.models.families import family_of
from subgraft.models.weights import INDEX, weight_files
from subgraft.vocabulary.directory import MODEL_NAMES

_HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
# Never *.bin, *.pt or *.py: nothing is unpickled, and no code is run that is not this package's. By name, since a
# pattern would bring whatever an index or a configuration could be made to lead to.
_NAMES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "target_vocab.json",
    "vocab.txt",
    "merges.txt",
    *MODEL_NAMES,
    "source.spm",
    "target.spm",
    INDEX,
)
_FOLDERS = ("", "encoder/", "decoder/")
HUB_FILES = [*(f"{folder}{name}" for folder in _FOLDERS for name in _NAMES), "*.safetensors"]
# A star stands for folders as well.
NOT_FROM_HUB = ["*/*.safetensors"]


def resolve_model(model: Path | str) -> Path:
    """The directory of a model: itself, or the local copy of a hub id such as `Helsinki-NLP/opus-mt-en-fr`.

    Raises UserError where there is neither, OperationalError where the hub cannot be reached.
    """
    directory = Path(model)
    if directory.is_dir():
        return directory
    if isinstance(model, Path) or directory.exists() or not _HUB_ID.fullmatch(model):
        raise UserError("no such model directory", where=str(model), hint="Give a directory or a hub id.")
    return _download(model)


def _download(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=HUB_FILES, ignore_patterns=NOT_FROM_HUB))
    except (RepositoryNotFoundError, ValueError) as error:
        raise UserError(
            "neither a directory nor a model on the hub", where=hub_id, hint="Check the spelling."
        ) from error
    except OSError as error:
        raise OperationalError(
            f"no such directory, and the hub could not be asked ({type(error).__name__})",
            where=hub_id,
            hint="Check the spelling of the directory, or the connection to the hub.",
        ) from error


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a model directory, checked. Raises UserError where it is missing, broken or of no model."""
    if not (directory / "config.json").is_file() or "model_type" not in (config := read_checked(directory)):
        raise UserError(
            "not a model directory: it has no config.json with a model_type",
            where=str(directory),
            hint="Give a directory that transformers' save_pretrained wrote, or a hub id.",
        )
    return config


def require_model(model: Path | str) -> Path:
    """The directory of a model, nothing of it loaded yet.

    Raises UserError where it holds none, for an unknown family, and for weights that are not in safetensors.
    """
    directory = resolve_model(model)
    family_of(read_config(directory))
    weight_files(directory)
    return directory
