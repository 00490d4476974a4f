"""The package that `ray job submit` would upload, built as Ray builds it to check its size first."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from subgraft.base.errors import UserError

MAX_BYTES = 10_000_000  # every node that runs a part of the job unpacks it; Ray itself takes up to 2 GiB


@dataclass(frozen=True)
class Upload:
    """The package of a job; `largest` has its largest files with their packed bytes, largest first."""

    bytes: int
    files: int
    largest: tuple[tuple[str, int], ...]


def pack_working_directory(runtime_env: Path) -> Upload:
    """Pack the working directory of a runtime environment file. Raises UserError for a file without one."""
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import create_package

    folder, excludes = _read(runtime_env)
    with tempfile.TemporaryDirectory() as temporary:
        package = Path(temporary) / "package.zip"
        create_package(
            str(folder),
            package,
            include_gitignore=True,
            excludes=[*get_runtime_env_default_excludes(), *excludes],
            logger=logging.getLogger(__name__),
        )
        with ZipFile(package) as archive:
            entries = [(entry.filename, entry.compress_size) for entry in archive.infolist() if not entry.is_dir()]
        entries.sort(key=lambda entry: entry[1], reverse=True)
        return Upload(package.stat().st_size, len(entries), tuple(entries[:3]))


def require_small(upload: Upload, runtime_env: Path) -> None:
    """Raises UserError, naming the largest files, for an upload of more than ten megabytes."""
    if upload.bytes > MAX_BYTES:
        largest = ", ".join(f"{name} ({size / 1e6:.1f} MB)" for name, size in upload.largest)
        raise UserError(
            f"a job would send {upload.bytes / 1e6:.1f} MB in {upload.files} files, above all {largest}",
            where=str(runtime_env),
            hint="Exclude what a run does not read (excludes, .gitignore); corpora belong on shared storage.",
        )


def _read(runtime_env: Path) -> tuple[Path, list[str]]:
    """The working directory, relative to the current one as in Ray, and its excluded patterns."""
    try:
        environment = YAML(typ="safe").load(runtime_env.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError("no such runtime environment file", where=str(runtime_env)) from None
    except YAMLError as error:
        raise UserError(f"not YAML: {error}", where=str(runtime_env)) from None
    if not isinstance(environment, dict) or not isinstance(environment.get("working_dir"), str):
        raise UserError("names no working_dir", where=str(runtime_env), hint="As in: working_dir: .")
    folder = Path(environment["working_dir"])
    if not folder.is_dir():
        raise UserError(
            "no such folder",
            where=f"{runtime_env}: working_dir {folder}",
            hint="It is relative to the current directory.",
        )
    return folder, list(environment.get("excludes") or [])
