"""How far a command is that writes many lines, on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from subgraft.base.terminal import Terminal
from subgraft.base.terminal_escaping import printable
from subgraft.orchestration.execution.progress import LINE_SECONDS, Pace, counted
from subgraft.orchestration.store.events import Progress

# As `inference` reports: how many of how many of what are done.
Report: TypeAlias = Callable[[int, int, str], None]


@contextmanager
def counting(what: str, to: TextIO | None = None, seconds: float = LINE_SECONDS) -> Iterator[Report]:
    """What to report to while the block lasts.

    what: the task's name.  to: standard error by default.  seconds: between two lines.
    """
    stream = to or sys.stderr
    console = Terminal(file=stream)
    shown = _bar if console.is_terminal and not console.is_dumb_terminal else _lines
    with shown(what, console, seconds) as show:
        pace = Pace()

        def report(done: int, total: int, counts: str) -> None:
            event = Progress(done, total, counts)
            pace.update(event)
            show(event, f"{counted(event)}{pace.left(event)}")

        yield report


@contextmanager
def _bar(what: str, console: Terminal, seconds: float) -> Iterator[Callable[[Progress, str], None]]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    del seconds
    told = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[shown]}", markup=False)
    bars = Bars(told[0], BarColumn(bar_width=24), told[1], TimeElapsedColumn(), console=console, transient=True)
    with bars:
        task = bars.add_task(printable(what), total=None, shown="")
        yield lambda event, line: bars.update(task, completed=event.done, total=event.total, shown=printable(line))


@contextmanager
def _lines(what: str, console: Terminal, seconds: float) -> Iterator[Callable[[Progress, str], None]]:
    last = time.monotonic()

    def show(event: Progress, line: str) -> None:
        nonlocal last
        if event.done < event.total and time.monotonic() - last >= seconds:
            last = time.monotonic()
            console.print(f"{what}: {line}", soft_wrap=True)

    yield show
