"""The SQLite file of runs: created atomically, and checked before MLflow opens it.

MLflow creates its tables in any file: also in one that was emptied, where it silently starts a new record of runs, and
in another program's database.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from subgraft.base.errors import OperationalError, UserError

PARTIAL_PREFIX = ".making-mlflow-"
# Tables that MLflow has had in every version; a database without them is not MLflow's.
TABLES = frozenset({"alembic_version", "experiments", "runs"})
LOCKED_SECONDS = 20.0
RESTORE = "Put a copy of it back, or move it away: a new one is made then, and artifacts stay as they are."


def make_or_check(database: Path, locked_seconds: float = LOCKED_SECONDS) -> None:
    """Check the file with MLflow's tables, or create it. The caller makes sure that no other process does this.

    Args:
        database: The file.
        locked_seconds: How long to wait while another process has it locked.

    Raises:
        OperationalError: If the file is empty, damaged or stays locked.
        UserError: If it is not an MLflow database.
    """
    if not database.exists():
        _make(database)
        return
    if not database.is_file():
        raise UserError("a database was expected, this is not a file", where=str(database))
    if database.stat().st_size == 0:
        raise OperationalError("is empty: the record of earlier runs is lost", where=str(database), hint=RESTORE)
    try:
        tables = _tables(database, locked_seconds)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            hint = "End that process, or try again later."
            raise OperationalError("another process has it locked", where=str(database), hint=hint) from None
        raise OperationalError(f"is damaged: {error}", where=str(database), hint=RESTORE) from None
    if not tables & TABLES:
        hint = "Move it away, or set SUBGRAFT_HOME or MLFLOW_TRACKING_URI to another place."
        raise UserError("is not a database of MLflow", where=str(database), hint=hint)
    if missing := sorted(TABLES - tables):
        message = f"is damaged: it has no table {missing[0]}"
        raise OperationalError(message, where=str(database), hint=RESTORE)


def _tables(database: Path, locked_seconds: float) -> set[str]:
    """The names of its tables. Raises sqlite3.Error unless all its pages can be read."""
    # Read and write, because opening it rolls back a transaction that a kill interrupted.
    address = f"file:{quote(str(database))}?mode=rw"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=locked_seconds)) as connection:
        ((result, *_),) = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise sqlite3.DatabaseError(str(result).splitlines()[-1])
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _make(database: Path) -> None:
    """Create the file atomically, because MLflow never repairs incomplete tables."""
    from mlflow import MlflowClient

    for leftover in database.parent.glob(f"{PARTIAL_PREFIX}*"):  # of a killed process
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=PARTIAL_PREFIX) as folder:
        new = Path(folder) / database.name
        MlflowClient(tracking_uri=f"sqlite:///{new}").search_experiments(max_results=1)
        new.rename(database)


# MLflow stores absolute paths of artifacts. They are rewritten after a home was copied or moved: otherwise a
# copy would read models of the original, and write new ones there.
_LOCATIONS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def relocate_artifacts(database: Path, artifacts: Path) -> None:
    """Rewrite the paths of a home's own database to lie below `artifacts`, the folder next to it, in one transaction.

    A database with other tables, or that cannot be written, is left unchanged.
    """
    try:
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            for old_location in _locations_of_other_homes(connection, artifacts):
                for table, column in _LOCATIONS:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                        (
                            artifacts.as_uri(),
                            len(old_location) + 1,
                            old_location,
                            len(old_location) + 1,
                            f"{old_location}/",
                        ),
                    )
    except sqlite3.Error:
        return


def _locations_of_other_homes(connection: sqlite3.Connection, artifacts: Path) -> list[str]:
    """Artifact locations of experiments that belong to other homes."""
    locations = connection.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    ending = f"/{artifacts.name}"
    return [
        location
        for (location,) in locations
        if isinstance(location, str)
        and location.startswith("file:///")
        and location.endswith(ending)
        and location != artifacts.as_uri()
        and not _is_same_folder(Path(unquote(urlparse(location).path)), artifacts)
    ]


def _is_same_folder(first: Path, second: Path) -> bool:
    """Whether both paths are the same folder, through a link or another mount: then both are valid."""
    try:
        return first.samefile(second)
    except OSError:
        return False
