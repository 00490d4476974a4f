"""Results as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 100
_HTML = '<pre style="white-space: pre; line-height: 1.3">{code}</pre>'


def as_text(*parts: RenderableType) -> str:
    """The output of a terminal of a hundred columns."""
    from subgraft.base.terminal import Terminal

    text = StringIO()
    Terminal(file=text, width=_WIDTH).print(*parts, sep="\n")
    return text.getvalue()


def as_html(*parts: RenderableType) -> str:
    """The same as preformatted HTML, in which the texts are escaped."""
    from subgraft.base.terminal import Terminal

    console = Terminal(file=StringIO(), width=_WIDTH, record=True)
    console.print(*parts, sep="\n")
    return console.export_html(inline_styles=True, code_format=_HTML)
