"""What commands share: their parsers' type, and standard output."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from subgraft.base.terminal import Terminal

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def console() -> Terminal:
    """Standard output."""
    from subgraft.base.terminal import Terminal

    return Terminal()
