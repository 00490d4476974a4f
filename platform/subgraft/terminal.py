"""Rich's console for text that is nobody's markup: strings are shown as they are, and a style needs a rich `Text`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from subgraft.printed import naming, printable


class Terminal(Console):
    """Prints strings, also those in tables, as they are: brackets and colons mean nothing, nor do control characters.

    As wide as a pipe allows where there is no terminal, so that tables are not cut.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.is_terminal and "width" not in options:
            self.width = 140

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})

    def print(self, *objects: Any, **options: Any) -> None:
        with naming(self.file):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        raise  # to `main`: rich itself would exit with 1, and a reader that has had enough is no failure
