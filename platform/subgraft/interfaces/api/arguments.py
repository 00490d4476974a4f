"""Checks of arguments that the API and the commands take: models and artifacts are verified before use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias, get_args

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.base.limits import MAX_COUNT
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName


def local_model(model: str) -> str:
    """The local path or hub id of a model; a registered one is verified, and fetched if it is remote."""
    if not model.startswith("models:/"):
        require_sound(Path(model))
        return model  # unchanged: `./absent` cannot be a hub id, `absent` can
    from subgraft.orchestration.tracking.model_registry import Registry
    from subgraft.orchestration.tracking.server import recording_server

    with recording_server() as server:
        return str(Registry(server).resolve(model))


def require_sound(path: Path) -> Path:
    """The path. Raises UserError for an artifact of a store that differs from its record."""
    from subgraft.orchestration.store.record import RECORD, verify_artifact

    require_path(path)
    if (path / RECORD).is_file():
        try:
            verify_artifact(path, strict=False)  # a registered model also has its card there
        except (OSError, ValueError) as error:
            hint = "Run its experiment again: damaged artifacts are made again."
            raise UserError(f"a damaged artifact: {error}", where=str(path), hint=hint) from error
    return path


def new_languages_of(languages: Mapping[str, str]) -> dict[str, str]:
    """Languages that a model lacks with the initialisers of their codes. Raises ArgumentError for anything else."""
    if not isinstance(languages, Mapping) or not all(
        isinstance(text, str) and text for text in chain.from_iterable(languages.items())
    ):
        expected = "expected languages and their initialisers, as in {'ukr': 'mean'}"
        raise ArgumentError(f"{expected}, found {shown(languages)}", where="new_languages")
    return dict(languages)


# The codes of source and target, as in ("en", "de").
LanguagePair: TypeAlias = Languages | tuple[str, str]


def located(model: Path | str) -> Path | str:
    """The directory or hub id; of `models:/NAME@ALIAS` the directory, verified. Raises UserError for a damaged one."""
    if not (isinstance(model, os.PathLike) or (isinstance(model, str) and model)):
        expected = "a directory, a hub id, or models:/NAME@ALIAS"
        raise ArgumentError(f"expected {expected}, found {shown(model)}", where="model")
    return local_model(model) if isinstance(model, str) else require_sound(Path(model))


def path_of(name: str, value: Path | str) -> Path:
    """The value as a path. Raises ArgumentError for anything else."""
    if not (isinstance(value, os.PathLike) or (isinstance(value, str) and value)):
        raise ArgumentError(f"expected a path, found {shown(value)}", where=name)
    return Path(value)


# As the hub names data sets: no ending, and one slash.
_HUB_NAME = re.compile(r"[\w-]+/[\w-]+")


def text_files_of(name: str, paths: Iterable[Path | str], split: str = "train") -> tuple[Path, ...]:
    """Files and folders of text; in place of a data set of `datasets` the files of its split.

    Raises UserError and OperationalError as `dataset_files`, and for an absent path that may name a data set.
    """
    from subgraft.data.text.dataset_files import dataset_files, is_dataset

    files: list[Path] = []
    for path in (path_of(name, path) for path in paths):
        files += dataset_files(path, split) if is_dataset(path) else (require_no_hub_name(path),)
    return tuple(files)


def columns_of(table: object) -> list[str]:
    """The names of the columns of a table (pandas.DataFrame, datasets.Dataset); none of anything else."""
    return [str(column) for column in getattr(table, "column_names", getattr(table, "columns", ()))]


def require_column(name: str, field: str, columns: Sequence[str]) -> None:
    """Raises ArgumentError for a table, the argument of this name, that lacks the column of the text."""
    if field not in columns:
        hint = f"Name the column of the text by `field`: {', '.join(columns)}."
        raise ArgumentError(f"there is no column '{field}'", where=name, hint=hint)


def require_no_hub_name(path: Path) -> Path:
    """The path. Raises UserError for an absent one that is written like a data set of the hub."""
    if _HUB_NAME.fullmatch(str(path)) and not require_path(path).exists():
        raise UserError("no such file", where=str(path), hint=f"A data set of the hub is hf://datasets/{path}.")
    return path


def require_whole(
    name: str, value: int | None, minimum: int, maximum: int = MAX_COUNT, *, optional: bool = False
) -> None:
    """Raises ArgumentError for anything but a whole number in the range, or None if it is `optional`."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        bounds = f"from {minimum} on" if maximum == MAX_COUNT else f"from {minimum} to {maximum}"
        raise ArgumentError(f"expected a whole number {bounds}, found {shown(value)}", where=name)


def require_share(name: str, value: float) -> None:
    """Raises ArgumentError for anything but a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ArgumentError(f"expected a number from 0 to 1, found {shown(value)}", where=name)


def one_of(name: str, value: str, choices: Iterable[str]) -> None:
    """Raises ArgumentError for any other value."""
    allowed = list(choices)
    if value not in allowed:
        raise ArgumentError(f"expected one of {', '.join(map(repr, allowed))}, found {shown(value)}", where=name)


def sides_of(sides: Iterable[SideName]) -> tuple[SideName, ...]:
    """The sides. Raises ArgumentError for a string, for none, for unknown ones, and for one twice."""
    allowed = get_args(SideName)
    names = () if isinstance(sides, str) or not isinstance(sides, Iterable) else tuple(sides)
    if not names or any(side not in allowed for side in names) or len(set(names)) < len(names):
        hint = 'Give ("decoder",) or ("encoder", "decoder").'
        raise ArgumentError(f"expected a sequence of sides, found {shown(sides)}", where="sides", hint=hint)
    return names


def shown(value: object) -> str:
    """A value for a message: its `repr`, truncated."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def pair_of(languages: LanguagePair) -> Languages:
    """Raises ArgumentError for anything but two codes."""
    if isinstance(languages, Languages):
        return languages
    pair = isinstance(languages, tuple | list) and len(languages) == 2
    if not pair or not all(isinstance(code, str) for code in languages):
        hint = 'Give those of source and target, as in ("en", "de").'
        raise ArgumentError(f"expected two language codes, found {shown(languages)}", where="languages", hint=hint)
    return Languages(source=languages[0], target=languages[1])
