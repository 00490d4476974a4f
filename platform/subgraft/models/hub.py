"""Where a model lies: a directory, or an id on the hub, of which a local copy is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from subgraft.errors import OperationalError, UserError
from subgraft.models.config_file import read_checked
from subgraft.models.families import family_of
from subgraft.models.weights import INDEX, TORCH_INDEX, weight_files
from subgraft.vocabulary.directory import MODEL_NAMES

_HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
# Never *.pt or *.py, and *.bin for a conversion alone: no code is run that is not this package's. By name, since a
# pattern would bring whatever an index or a configuration could be made to lead to.
CONFIGURATION = ("config.json", "generation_config.json")
_VOCABULARY = (
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
)
_FOLDERS = ("", "encoder/", "decoder/")
VOCABULARY_FILES = tuple(f"{folder}{name}" for folder in _FOLDERS for name in _VOCABULARY)
# All but weights.
SMALL_FILES = (*CONFIGURATION, *VOCABULARY_FILES)
HUB_FILES = [*SMALL_FILES, INDEX, "*.safetensors"]
TORCH_FILES = [*SMALL_FILES, TORCH_INDEX, "*.bin"]
# A star stands for folders as well.
NOT_FROM_HUB = ["*/*.safetensors", "*/*.bin"]


def resolve_model(
    model: Path | str, files: Sequence[str] = HUB_FILES, revision: str | None = None, *, family: bool = True
) -> Path:
    """The directory of a model: itself, or the local copy of a hub id such as `Helsinki-NLP/opus-mt-en-fr`.

    files: those wanted of the hub.  revision: a commit, branch or tag there; by default the newest.  family: whether a
    model of the hub must be of a known one, which is asked before any other file of it is fetched.

    Raises UserError where there is neither, OperationalError where the hub cannot be reached.
    """
    directory = Path(model)
    if directory.is_dir():
        if revision is not None:
            raise UserError("a directory has no revisions", where=str(model), hint="Leave --revision out.")
        return directory
    if isinstance(model, Path) or directory.exists() or not _HUB_ID.fullmatch(model):
        raise UserError("no such model directory", where=str(model), hint="Give a directory or a hub id.")
    if family:
        family_of(read_config(_download(model, ["config.json"], revision)))
    return _download(model, files, revision)


def _download(hub_id: str, files: Sequence[str], revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        copied = snapshot_download(hub_id, revision=revision, allow_patterns=list(files), ignore_patterns=NOT_FROM_HUB)
        return Path(copied)
    except RevisionNotFoundError as error:
        raise UserError(f"the hub has no revision {revision} of this model", where=hub_id) from error
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
    weight_files(directory, str(model))
    return directory
