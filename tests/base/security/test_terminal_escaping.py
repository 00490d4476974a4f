"""Whatever is printed says what it shows: names of files, corpora and tokens are nobody's markup or command."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text

from subgraft.base.security.terminal_escaping import printable, say
from subgraft.base.terminal import Terminal
from subgraft.interfaces.cli import main
from subgraft.orchestration.execution.progress import RichDisplay
from subgraft.orchestration.store.step import Step
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing

EVIL = "[/] [bold]x[/bold] [link=file:///etc]y[/link] :smile: \x1b[2J\x07\x85 \u202eabc \udcff"
SHOWN = r"[/] [bold]x[/bold] [link=file:///etc]y[/link] :smile: \x1b[2J\x07\x85 \u202eabc \xff"


def terminal() -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    return Terminal(file=stream, force_terminal=True, color_system=None, width=200, height=9), stream


def test_text_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(EVIL) == SHOWN
    assert printable("größer\n\t▁的 \u200f") == "größer\n\t▁的 \u200f"
    say(EVIL)
    assert capsys.readouterr().out == f"{SHOWN}\n"


def test_a_string_is_not_read_as_markup_wherever_it_stands() -> None:
    console, stream = terminal()
    table = Table(EVIL, title=EVIL, caption=EVIL)
    table.add_row(EVIL)
    console.print(table)
    console.print(EVIL)
    console.print(EVIL, style="bold")
    assert stream.getvalue().count(SHOWN) == 6


def test_a_styled_text_is_escaped_like_a_string() -> None:
    console, stream = terminal()
    table = Table("name")
    table.add_row(Text("a\x00b\x1b[2J\u202ec", style="bold"))
    console.print(Group(Text("a\x00b\x1b[2J\u202ec"), table))
    assert stream.getvalue().count(r"a\x00b\x1b[2J\u202ec") == 1
    assert not {"\x00", "\x1b", "\u202e"} & set(stream.getvalue())


def test_names_of_running_steps_are_not_read_as_markup() -> None:
    console, stream = terminal()
    display = RichDisplay(console)
    name = "[/] [bold] \x1b[2J :smile:"
    display.started(Step(ToyKind("corpus", 1, nothing).of(Stage()), name))
    display.say(name)
    display.close()
    assert stream.getvalue().count(r"[/] [bold] \x1b[2J :smile:") >= 2
    assert name not in stream.getvalue()


def test_nothing_is_printed_in_another_way(repository: Path) -> None:
    """No bare `print`, no other console, no markup that is read."""
    package = repository / "platform" / "subgraft"
    calls = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = node.func if isinstance(node, ast.Call) else None
            if isinstance(named, ast.Name) and named.id in ("print", "Console"):
                calls.append(f"{path.relative_to(package)}: {named.id}")
            if isinstance(named, ast.Attribute) and named.attr in ("from_markup", "render_markup"):
                calls.append(f"{path.relative_to(package)}: {named.attr}")
    assert calls == ["base/security/terminal_escaping.py: print"] * 2


def test_the_command_line_shows_names_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", EVIL]) == 2
    assert SHOWN.split()[0] in capsys.readouterr().err
    folder = Path("[bold]\x1b[2J[link]")
    folder.mkdir()
    for language in ("en", "de"):
        for split in ("train", "dev", "test"):
            (folder / f"{split}.{language}").write_text(f"{split} a\n{split} b\n")
    assert main(["corpora", "get", str(folder), "--languages", "en-de", "--out", f"{folder}-copy"]) == 0
    assert r"[bold]\x1b[2J[link]-copy" in capsys.readouterr().out
