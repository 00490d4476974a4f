"""The home directory of a store: its location, its format, and other stores that may be meant."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterable
from pathlib import Path

from subgraft.base.errors import UserError

# Increase it when this version cannot read stores of earlier ones, apart from changed stages and recipes.
STORE_FORMAT = 1
RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray sets this variable, of that name, for the command of a job


def default_home() -> Path:
    """SUBGRAFT_HOME, or .subgraft in the working directory; absolute.

    Raises UserError in a Ray job whose store would be in its temporary copy of the working directory.
    """
    home = Path(os.environ.get("SUBGRAFT_HOME") or ".subgraft")
    if RAY_JOB in os.environ and not home.is_absolute():
        raise UserError(
            f"the store would be in the temporary working directory of a job: {home}",
            where="SUBGRAFT_HOME",
            hint="Set it on all nodes, or in env_vars of runtime_env.yaml, to a folder on the shared storage.",
        )
    return home.absolute()


def has_artifacts(home: Path) -> bool:
    """Whether any stage has published an artifact there."""
    try:
        return any(stage.name[0] != "." and any(stage.iterdir()) for stage in (home / "store").iterdir())
    except OSError:
        return False


def require_format(home: Path) -> None:
    """Raise UserError if the store under a home has artifacts and another format, or none, as older stores."""
    used = has_artifacts(home)  # first: the number is written before any artifact
    try:
        number = _format_file(home).read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        if not used:
            return
        number = ""
    if number == str(STORE_FORMAT):
        return
    format_text = f"has format {number[:20]}" if number else "was made by an older version, without a format number"
    new = shlex.quote(f"{home}-format-{STORE_FORMAT}")
    raise UserError(
        f"this store {format_text}; this version of Subgraft uses format {STORE_FORMAT}",
        where=str(home),
        hint=f"It is left untouched. Start a new store: SUBGRAFT_HOME={new} subgraft run CONFIG",
    )


def write_format(home: Path) -> None:
    """Write the format number of a new store."""
    file = _format_file(home)
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}-{secrets.token_hex(4)}")
    partial.write_text(f"{STORE_FORMAT}\n", encoding="utf-8")
    partial.replace(file)


def _format_file(home: Path) -> Path:
    return home / "store" / ".format"


def describe_empty_store(home: Path, *near: Path) -> str:
    """One line if nothing has been made under a home yet, with another store that may be meant; else nothing.

    near: folders, such as a configuration's, in or above which the other store may be.
    """
    if has_artifacts(home):
        return ""
    reason = "SUBGRAFT_HOME says so" if os.environ.get("SUBGRAFT_HOME") else "it is looked for in the working directory"
    other = other_store(home, near)
    hint = f"; there is one in {other} (SUBGRAFT_HOME={other})" if other else ""
    return f"the store {home} is empty: {reason}{hint}"


def other_store(home: Path, near: Iterable[Path] = ()) -> Path | None:
    """The nearest home with artifacts in the working directory, in the folders `near`, or above any of them."""
    for start in (Path.cwd(), *near):
        for folder in (start, *start.parents):
            candidate = folder / ".subgraft"
            if candidate != home and has_artifacts(candidate):
                return candidate
    return None


def other_store_hint() -> str:
    """A sentence that names another store near the working directory, or an empty string."""
    other = other_store(default_home())
    return f" There is a store in {other}." if other else ""
