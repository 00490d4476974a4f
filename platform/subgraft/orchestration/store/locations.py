"""Find the store that an empty one may have been mistaken for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from subgraft.orchestration.store.store import default_home


def describe_empty_store(home: Path, *beside: Path) -> str:
    """One line where nothing has been made under a home yet, with another store that may be meant; else nothing.

    beside: folders, as a configuration's, that may have the other one in them or above them.
    """
    if holds_artifacts(home):
        return ""
    told = f"the store {home} is empty"
    why = "SUBGRAFT_HOME says so" if os.environ.get("SUBGRAFT_HOME") else "it is looked for in the working directory"
    other = other_store(home, beside)
    return f"{told}: {why}" + (f"; there is one in {other} (SUBGRAFT_HOME={other})" if other else "")


def other_store(home: Path, beside: Iterable[Path] = ()) -> Path | None:
    """The nearest home with artifacts in the working directory, in the given folders, or above any of them."""
    for start in (Path.cwd(), *beside):
        for folder in (start, *start.parents):
            found = folder / ".subgraft"
            if found != home and holds_artifacts(found):
                return found
    return None


def other_store_hint() -> str:
    """A sentence that names another store near the working directory, or an empty string."""
    other = other_store(default_home())
    return f" There is a store in {other}." if other else ""


def holds_artifacts(home: Path) -> bool:
    """Whether any stage has published an artifact there."""
    try:
        return any(stage.name[0] != "." and any(stage.iterdir()) for stage in (home / "store").iterdir())
    except OSError:
        return False
