"""Entries of tables that name an object by a string, `package.module:Name`, as entry points do."""

from importlib import import_module
from typing import Any


def imported(entry: str) -> Any:
    """Import and return the object that an entry names."""
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
