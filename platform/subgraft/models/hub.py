"""Where a model lies: a directory, or an id on the hub, of which a local copy is made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subgraft.errors import OperationalError, UserError
from subgraft.models.sides import BERT2BERT, SIDES_OF_FAMILY, known_family

_HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
# Never *.bin, *.pt or *.py: nothing is unpickled, and no code is run that is not this package's.
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "*.txt"]


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
        return Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES))
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


def described_family(config: Mapping[str, Any]) -> str:
    """The family of a model by its config.json. Raises UserError for one that is not known.

    Of encoder-decoders those of two BERTs of one width are known.
    """
    family = known_family(config["model_type"])
    if family == BERT2BERT:
        parts = [config.get(name) or {} for name in SIDES_OF_FAMILY[family]]
        if any(part.get("model_type") != "bert" for part in parts) or len({p.get("hidden_size") for p in parts}) != 1:
            raise UserError("an encoder-decoder of other parts than two BERTs of one width is not known")
    return family


def position_limit(config: Mapping[str, Any]) -> int | None:
    """The longest sequence that a model takes by its configuration, in tokens; None where that sets no limit."""
    parts = [config, *(config[name] for name in ("encoder", "decoder") if isinstance(config.get(name), Mapping))]
    limits = [part.get("max_position_embeddings") or part.get("n_positions") for part in parts]
    return min((int(limit) for limit in limits if limit), default=None)


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a model directory. Raises UserError where it is missing, broken, or names no model type."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        config = None
    except ValueError as error:
        raise UserError(f"config.json is not JSON: {error}", where=str(directory)) from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UserError(
            "not a model directory: it has no config.json with a model_type",
            where=str(directory),
            hint="Give a directory that transformers' save_pretrained wrote, or a hub id.",
        )
    return config
