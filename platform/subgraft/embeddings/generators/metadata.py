"""The description of a trained generator on disk: its kind, and the embeddings and vocabulary it was trained on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from subgraft.base import json_io
from subgraft.base.errors import UserError

_TRAIN_AGAIN = "Train the generator again."


@dataclass(frozen=True)
class GeneratorOrigin:
    """Digests of the embeddings and the vocabulary that a generator was trained on; it is valid for these only."""

    table: str
    vocabulary: str
    max_similar: int


def table_digest(table: Tensor) -> str:
    """SHA-256 of an embedding matrix."""
    contiguous = table.detach().cpu().contiguous()
    return hashlib.sha256(contiguous.view(torch.uint8).numpy().data).hexdigest()


def read_description(directory: Path, side: str) -> dict[str, Any]:
    """Read generator.json. Raises UserError if it is missing, damaged, or has no entry for this side."""
    described = directory / "generator.json"
    if not described.is_file():
        raise UserError(
            "no generator.json here", where=str(directory), hint="Give the directory of a trained generator."
        )
    try:
        config = json_io.parse_object(described.read_bytes())
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=str(described), hint=_TRAIN_AGAIN) from error
    if not isinstance(config.get("sides"), dict):
        raise UserError("no description of a generator", where=str(described), hint=_TRAIN_AGAIN)
    if side not in config["sides"]:
        raise UserError(
            f"this generator was trained for {', '.join(config['sides'])}, not for the {side}",
            where=str(directory),
            hint=f"Train one with sides that include {side}.",
        )
    return config


def require_kind(directory: Path, side: str, kind: str) -> dict[str, Any]:
    """The description of a generator of this kind. Raises UserError for another kind."""
    found = read_description(directory, side)
    if found.get("kind") != kind:
        what = f"this is a generator of kind {found.get('kind')}, not {kind}"
        raise UserError(what, where=str(directory), hint="Give the method that it was trained for.")
    return found


def kind_of(directory: Path, side: str) -> str:
    """The kind of the generator in a directory. Raises UserError like `read_description`."""
    return str(read_description(directory, side).get("kind"))


def origin_of(directory: Path, side: str) -> GeneratorOrigin:
    """What a side's generator was trained on. Raises UserError if the description is damaged."""
    described = read_description(directory, side)["sides"][side]
    try:
        return GeneratorOrigin(**{field.name: described[field.name] for field in fields(GeneratorOrigin)})
    except (KeyError, TypeError) as error:
        raise UserError(f"a damaged generator: {error}", where=str(directory), hint=_TRAIN_AGAIN) from error


def check_origin(origin: GeneratorOrigin, table: Tensor, vocabulary: str, where: str) -> None:
    """Raises UserError if a generator was trained for another model or vocabulary."""
    for what, expected, found in (
        ("vocabulary", origin.vocabulary, vocabulary),
        ("model", origin.table, table_digest(table)),
    ):
        if expected != found:
            raise UserError(
                f"this generator was made for another {what} (digest {expected[:12]}, here {found[:12]})",
                where=where,
                hint="Train a generator on this model, or give the model it was trained on.",
            )
