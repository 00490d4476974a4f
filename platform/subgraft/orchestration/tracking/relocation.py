"""A home that was copied or moved finds its own artifacts: MLflow writes down absolute places alone.

Without this a copy would read the models of the home that it was made of, and put new ones there.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlparse

# Where MLflow keeps places of artifacts.
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def settle(database: Path, artifacts: Path) -> None:
    """Make the places in a home's own database those below `artifacts`, the folder beside it, all at once.

    A database that is not as MLflow makes it, or that cannot be written, is left to whoever opens it next.
    """
    try:
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            for before in _elsewhere(connection, artifacts):
                for table, column in _PLACES:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                        (artifacts.as_uri(), len(before) + 1, before, len(before) + 1, f"{before}/"),
                    )
    except sqlite3.Error:
        return


def _elsewhere(connection: sqlite3.Connection, artifacts: Path) -> list[str]:
    """The places of other homes' folders of artifacts that experiments have."""
    found = connection.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    ending = f"/{artifacts.name}"
    return [
        place
        for (place,) in found
        if isinstance(place, str)
        and place.startswith("file:///")
        and place.endswith(ending)
        and place != artifacts.as_uri()
        and not _is_same(Path(unquote(urlparse(place).path)), artifacts)
    ]


def _is_same(one: Path, other: Path) -> bool:
    """Whether both are one folder, by a link or another mount: then both ways to it are right."""
    try:
        return one.samefile(other)
    except OSError:
        return False
