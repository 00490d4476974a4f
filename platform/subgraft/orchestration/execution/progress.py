"""The display of a run or of a long command: live bars on a terminal, lines elsewhere. Both go to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TextIO

from subgraft.base.progress import ProgressCallback
from subgraft.base.security.redaction import redact
from subgraft.base.security.terminal_escaping import printable
from subgraft.orchestration.store.events import Noted, Observer, Progress, Warned
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from subgraft.base.terminal import Terminal


LINE_SECONDS = 15.0
STEPS = "steps"  # as the training loop counts them


class Display(Observer):
    """An observer that shows a run to its user."""

    def say(self, line: str) -> None:
        """Show one line, above progress bars."""

    def close(self) -> None:
        """Restore the terminal."""


class PlainDisplay(Display):
    """Lines for logs: the start and end of a step, and in between a line every `seconds`, with the remaining time."""

    def __init__(self, write: Callable[[str], None], seconds: float = LINE_SECONDS) -> None:
        self._write = write
        self._seconds = seconds
        self._pace: dict[str, Pace] = {}
        self._last: dict[str, float] = {}
        self._noted: set[str] = set()

    def say(self, line: str) -> None:
        self._write(line)

    def cached(self, step: Step, record: Record) -> None:
        self.say(f"[cached]   {step.name}")

    def started(self, step: Step) -> None:
        self._last[step.fingerprint] = time.monotonic()
        self.say(f"[started]  {step.name}")

    def progress(self, step: Step, event: Progress) -> None:
        pace = self._pace.setdefault(step.fingerprint, Pace())
        pace.update(event)
        now = time.monotonic()
        if now - self._last.get(step.fingerprint, 0.0) >= self._seconds:
            self._last[step.fingerprint] = now
            self.say(f"[running]  {step.name}: {describe_progress(event)}{pace.time_left(event)}")

    def warned(self, step: Step, event: Warned) -> None:
        self.say(f"[warning]  {step.name}: {event.line}")

    def noted(self, step: Step, event: Noted) -> None:
        """Show a choice once, for the first of the steps that made it."""
        if event.line not in self._noted:
            self._noted.add(event.line)
            self.say(f"[note]     {step.name}: {event.line}")

    def finished(self, step: Step, record: Record) -> None:
        self.say(f"[done]     {step.name} ({rounded_duration(record.seconds)})")

    def failed(self, step: Step, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self.say(f"[stopped]  {step.name}")
            return
        self.say(f"[failed]   {step.name}: {(str(error) or type(error).__name__).splitlines()[0]}")


class RichDisplay(PlainDisplay):
    """A bar per running step, and the lines of the others above."""

    def __init__(self, console: Terminal) -> None:
        self._bars = _bars(console)
        super().__init__(lambda line: self._bars.console.print(redact(line)))
        self._tasks: dict[str, TaskID] = {}
        self._bars.start()

    def started(self, step: Step) -> None:
        if step.fingerprint not in self._tasks:
            self._tasks[step.fingerprint] = self._bars.add_task(printable(step.name), total=None, shown="")

    def progress(self, step: Step, event: Progress) -> None:
        self.started(step)
        pace = self._pace.setdefault(step.fingerprint, Pace())
        pace.update(event)
        self._bars.update(
            self._tasks[step.fingerprint],
            completed=event.done,
            total=event.total or None,
            shown=printable(f"{describe_progress(event)}{pace.time_left(event)}"),
        )

    def finished(self, step: Step, record: Record) -> None:
        self._drop(step)
        super().finished(step, record)

    def failed(self, step: Step, error: BaseException) -> None:
        self._drop(step)
        super().failed(step, error)

    def close(self) -> None:
        self._bars.stop()

    def _drop(self, step: Step) -> None:
        task = self._tasks.pop(step.fingerprint, None)
        if task is not None:
            self._bars.remove_task(task)


def _bars(console: Terminal) -> Bars:
    from rich import progress

    text = partial(progress.TextColumn, markup=False)
    columns = text("{task.description}"), progress.BarColumn(bar_width=24), text("{task.fields[shown]}")
    return progress.Progress(*columns, progress.TimeElapsedColumn(), console=console, transient=True)


class Pace:
    """The speed of one kind of work since its first report in this run, so that resumed work does not count.

    The pace is reset when the work changes or its count falls, as when the other side's generator is trained.
    """

    def __init__(self) -> None:
        self._first: Progress | None = None
        self._last: Progress | None = None

    def update(self, event: Progress) -> None:
        """Add a report."""
        if self._last is None or self._last.what != event.what or event.done < self._last.done:
            self._first = event
        self._last = event

    def time_left(self, event: Progress) -> str:
        """The remaining time at this pace, such as `, 3 min left`, or an empty string while there is no estimate."""
        if self._first is None or event.done <= self._first.done or event.total <= event.done:
            return ""
        rate = (event.time - self._first.time) / (event.done - self._first.done)
        return f", {rounded_duration(rate * (event.total - event.done))} left"


def describe_progress(event: Progress) -> str:
    """The progress in words: `120/4,000 sentences`, or `step 120 of 4,000, loss 5.012`; an unknown total is omitted."""
    if not event.done and not event.total:
        return event.what
    if event.what == STEPS:
        count = f"step {event.done:,} of {event.total:,}" if event.total else f"step {event.done:,}"
    else:
        count = f"{event.done:,}/{event.total:,} {event.what}" if event.total else f"{event.done:,} {event.what}"
    return f"{count}, {event.now}" if event.now else count


def rounded_duration(seconds: float) -> str:
    """Seconds in words: 8 s, 3 min 5 s, 2 h 10 min."""
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"


def display_for(console: Terminal) -> Display:
    """Bars where the console is a terminal, lines otherwise."""
    if console.is_terminal and not console.is_dumb_terminal:
        return RichDisplay(console)
    return PlainDisplay(lambda line: console.print(redact(line), soft_wrap=True))


@contextmanager
def counting(what: str, to: TextIO | None = None, seconds: float = LINE_SECONDS) -> Iterator[ProgressCallback]:
    """Show the progress of a command that writes many lines: a bar on a terminal, lines elsewhere.

    Args:
        what: The task's name.
        to: Standard error by default.
        seconds: The time between two lines.
    """
    from subgraft.base.terminal import Terminal

    console = Terminal(file=to or sys.stderr)
    display = _bar if console.is_terminal and not console.is_dumb_terminal else _lines
    with display(what, console, seconds) as show:
        pace = Pace()

        def report(done: int, total: int, counts: str) -> None:
            event = Progress(done, total, counts)
            pace.update(event)
            show(event, f"{describe_progress(event)}{pace.time_left(event)}")

        yield report


@contextmanager
def _bar(what: str, console: Terminal, seconds: float) -> Iterator[Callable[[Progress, str], None]]:
    del seconds
    with _bars(console) as bars:
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
