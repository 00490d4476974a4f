"""A document of sections and blocks, and its two renderings: Markdown with image files, and one HTML page."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, get_args

from subgraft.evaluation.reporting.drawing import ResponsivePng
from subgraft.evaluation.reporting.records import Command
from subgraft.evaluation.reporting.table import (
    Table,
    Text,
    code_fence,
    escape_markdown,
    table_markdown,
    text_markdown,
)

PLOTS = "plots"
# The forms of a report: by what models do with the task's text.
Form = Literal["translation", "continuation", "labels"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    kind: ClassVar[str] = "paragraph"
    text: Text


@dataclass(frozen=True)
class Lead:
    """The sentence that a page begins with."""

    kind: ClassVar[str] = "lead"
    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short statements."""

    kind: ClassVar[str] = "bullets"
    items: tuple[Text, ...]


@dataclass(frozen=True)
class Notice:
    """A conspicuous remark."""

    kind: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True)
class Figure:
    """A plot: PNG bytes, the stem of its file's name, and a caption.

    Its panels are its curves as numbers, which the page's script (templates/curves.js) draws in place of the picture.
    """

    kind: ClassVar[str] = "figure"
    name: str
    png: bytes
    caption: str
    panels: tuple[Mapping[str, object], ...] = ()

    @property
    def panels_json(self) -> str:
        """JSON for an HTML `script`: nothing in it can end the element."""
        return json.dumps(self.panels, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")

    @property
    def base64(self) -> str:
        return base64.b64encode(self.png).decode("ascii")

    @property
    def narrow_base64(self) -> str:
        """The picture for narrow screens; empty without one."""
        return base64.b64encode(self.png.narrow).decode("ascii") if isinstance(self.png, ResponsivePng) else ""


@dataclass(frozen=True)
class Folded:
    """A table that opens on request in HTML (and is printed open)."""

    kind: ClassVar[str] = "folded"
    summary: str
    table: Table


@dataclass(frozen=True)
class Commands:
    """Commands to copy. summary: what opens them in HTML, where they are long; empty if they are open."""

    kind: ClassVar[str] = "commands"
    commands: tuple[Command, ...]
    summary: str = ""


Block = Paragraph | Lead | Bullets | Notice | Figure | Folded | Commands | Table


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


class MainColumn(NamedTuple):
    """A column of a report's main table: its heading, and its cells by system."""

    heading: str
    cells: Mapping[str, str]


class Measured(NamedTuple):
    """What measurements add to a report: sections after the results, after the learning curves, and columns."""

    after_results: tuple[Section, ...] = ()
    after_learning: tuple[Section, ...] = ()
    columns: tuple[MainColumn, ...] = ()


NOTHING_MEASURED = Measured()


@dataclass(frozen=True)
class Document:
    """A title, a line below it, and sections.

    Attributes:
        lead: What the first screen shows; the sections below it are folded in HTML, and printed open.
        refresh: Seconds after which a browser reloads the page.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    refresh: int | None = None
    lead: tuple[Block, ...] = ()

    @property
    def interactive(self) -> bool:
        """Whether a script has any curves to draw."""
        return any(figure.panels for figure in self.figures)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in order."""
        blocks = (*self.lead, *(block for section in self.sections for block in section.blocks))
        return tuple(block for block in blocks if isinstance(block, Figure))


def write_document(document: Document, out: Path) -> None:
    """Write report.md, report.html and plots/*.png into the existing directory `out`."""
    (out / PLOTS).mkdir(exist_ok=True)
    for figure in document.figures:
        (out / PLOTS / f"{figure.name}.png").write_bytes(figure.png)
    (out / "report.md").write_text(render_markdown(document), encoding="utf-8")
    (out / "report.html").write_text(render_html(document), encoding="utf-8")


def render_html(document: Document) -> str:
    """One self-contained page: style and images are inside, nothing is fetched."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("subgraft.evaluation.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(document=document)


def render_markdown(document: Document) -> str:
    """GitHub-flavoured Markdown; figures are expected as plots/NAME.png next to it."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.subtitle)]
    parts += map(_block_markdown, document.lead)
    for section in document.sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [_block_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block_markdown(block: Block) -> str:
    match block:
        case Paragraph():
            return text_markdown(block.text)
        case Lead():
            return f"**{escape_markdown(block.text)}**"
        case Bullets():
            return "\n".join(f"- {text_markdown(item)}" for item in block.items)
        case Notice():
            return f"> **{escape_markdown(block.text)}**"
        case Figure():
            return (
                f"![{escape_markdown(block.caption)}]({PLOTS}/{block.name}.png)\n\n*{escape_markdown(block.caption)}*"
            )
        case Folded():
            return f"**{escape_markdown(block.summary)}**\n\n{table_markdown(block.table)}"
        case Commands():
            lines = [line for command in block.commands for line in (f"# {command.purpose}", command.line)]
            fence = code_fence("\n".join(lines), 3)
            return "\n".join([f"{fence}sh", *lines, fence])
        case Table():
            caption = [f"**{escape_markdown(block.caption)}**"] if block.caption else []
            notes = ["\n".join(f"- {text_markdown(note)}" for note in block.notes)] if block.notes else []
            return "\n\n".join([*caption, table_markdown(block), *notes])
