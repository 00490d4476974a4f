"""Metrics, initialisers and model families of other installed packages, by the entry points of the groups below.

A package names them in its pyproject.toml; none of its code is imported before it is used:

    [project.entry-points."subgraft.metrics"]
    length-ratio = "mypackage.metrics:length_ratio"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pydantic_core import PydanticCustomError

from subgraft.base.errors import UserError

Group = Literal["subgraft.metrics", "subgraft.initialisers", "subgraft.methods", "subgraft.families"]
METRICS: Group = "subgraft.metrics"
# Functions, of which nothing is known before they are called; and entries with properties, as Subgraft's own.
INITIALISERS: Group = "subgraft.initialisers"
METHODS: Group = "subgraft.methods"
FAMILIES: Group = "subgraft.families"


@dataclass(frozen=True)
class Plugin:
    """An object that a package offers under a name; `package` is the package's name and version."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Import and return the object. Raises UserError if that fails."""
        try:
            return self.entry.load()
        except Exception as error:
            hint = f"{self.package} offers it as {self.entry.value}."
            where = f"{self.entry.group}: {self.name}"
            raise UserError(f"cannot be loaded: {type(error).__name__}: {error}", where=where, hint=hint) from error


@cache
def offered(group: Group) -> Mapping[str, Plugin]:
    """The plugins of a group, by name. Raises UserError if two packages offer the same name."""
    plugins: dict[str, Plugin] = {}
    for entry in entry_points(group=group):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"
        other = plugins.setdefault(entry.name, Plugin(entry.name, package, entry))
        if other.package != package:
            raise UserError(f"{other.package} and {package} both offer {group} '{entry.name}'", hint="Remove one.")
    return plugins


def require_offered(group: Group, name: str, own: Collection[str]) -> None:
    """Raise ValueError for a name that is neither built in nor offered by a plugin, or that is both."""
    others = offered(group)
    if name in own and name in others:
        raise ValueError(f"'{name}' is built in, but {others[name].package} offers it too: remove that package")
    known = [*own, *(other for other in others if other not in own)]
    if not known:
        raise ValueError(f"no installed package offers any, found '{name}' (entry points of the group {group})")
    if name not in known:
        *first, last = map(repr, known)
        expected = f"{', '.join(first)} or {last}" if first else last
        # Worded as pydantic words an unknown choice.
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})


def packages(group: Group, names: Collection[str]) -> dict[str, str]:
    """The package and version of each of these names that a package offers; for recipes."""
    others = offered(group)
    return {name: others[name].package for name in names if name in others}
