"""Outputs of commands appear atomically: complete under their final name, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.files import require_path
from subgraft.base.unfinished import unfinished_folder
from subgraft.orchestration.store.disk import full_disk, is_full_disk


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """A directory to write to that becomes `out` at the end, if nothing fails.

    Raises UserError where `out` exists and is not an empty directory, OperationalError where the disk is full.
    """
    require_empty_directory(out)
    with _staged(out) as staged:
        staged.mkdir()
        yield staged


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """A file to write to that becomes `out` at the end, if nothing fails.

    Raises UserError where `out` exists, OperationalError where the disk is full.
    """
    require_absent(out)
    with _staged(out) as staged:
        yield staged


def require_empty_directory(out: Path) -> None:
    """Raises UserError if `out` exists and is not an empty directory: before long work rather than after it."""
    if require_path(out).exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty directory", where=str(out), hint="Give another directory.")


def require_absent(out: Path) -> None:
    """Raises UserError if `out` exists: before long work rather than after it."""
    if require_path(out).exists():
        raise UserError("exists already", where=str(out), hint="Name another file.")


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A path on the disk of `out` that is renamed to `out` at the end; only then missing parents are created."""
    nearest = next(parent for parent in out.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise UserError("a folder was expected, this is a file", where=str(nearest), hint="Give another directory.")
    try:
        with unfinished_folder(nearest) as folder, _naming_full_disk(out):
            staged = folder / out.name
            yield staged
            out.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(out)
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise full_disk(error, out) from error


@contextmanager
def _naming_full_disk(out: Path) -> Iterator[None]:
    """Report a full disk while the partial output still exists, so that the full device can be identified."""
    try:
        yield
    except Exception as error:
        if not is_full_disk(error):
            raise
        full = full_disk(error, out)
        raise OperationalError(f"{full.what}; nothing was written", where=full.where, hint=full.hint) from error
