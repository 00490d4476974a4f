"""What commands share: where output goes, and how a result appears whole or not at all."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from subgraft.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def console() -> Console:
    """Standard output, as wide as a pipe allows: tables are not cut where there is no terminal."""
    from rich.console import Console

    found = Console()
    return found if found.is_terminal else Console(width=140)


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """A directory to write to that becomes `out` at the end, if nothing fails. Raises UserError where `out` exists."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty directory", where=str(out), mend="Give another --out.")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        beside.chmod(0o755)
        yield beside
        beside.rename(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """A file to write to that becomes `out` at the end, if nothing fails. Raises UserError where `out` exists."""
    if out.exists():
        raise UserError("exists already", where=str(out), mend="Give another --out.")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.part")
    try:
        yield beside
        beside.rename(out)
    finally:
        beside.unlink(missing_ok=True)
