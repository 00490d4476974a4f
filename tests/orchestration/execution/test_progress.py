"""What people see of a run."""

from __future__ import annotations

import io
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.terminal import Terminal
from subgraft.orchestration.execution.progress import (
    Pace,
    PlainDisplay,
    RichDisplay,
    describe_progress,
    display_for,
    rounded_duration,
)
from subgraft.orchestration.store.events import Noted, Progress, Warned
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


class ToyStage(Stage):
    size: int = 10


STEP = Step(ToyKind("corpus", 1, nothing).of(ToyStage()), "corpus [everyday]")


def test_durations() -> None:
    assert [rounded_duration(seconds) for seconds in (0.4, 59.4, 59.6, 185, 7805)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "3 min 5 s",
        "2 h 10 min",
    ]


def test_counts() -> None:
    assert describe_progress(Progress(120, 4000, "sentences", 0)) == "120/4,000 sentences"
    assert describe_progress(Progress(120, 4000, "steps", 0, "loss 5.012")) == "step 120 of 4,000, loss 5.012"
    assert describe_progress(Progress(1200, 0, "sentences", 0)) == "1,200 sentences"
    assert describe_progress(Progress(0, 0, "waiting", 0)) == "waiting"


def test_the_time_left_counts_only_what_this_attempt_did() -> None:
    pace = Pace()
    resumed = Progress(900, 1000, "steps", 100.0)
    pace.update(resumed)
    assert pace.time_left(resumed) == ""
    later = Progress(910, 1000, "steps", 110.0, "loss 3.210")
    pace.update(later)
    assert pace.time_left(later) == ", 1 min 30 s left"
    other = Progress(1, 10, "sentences", 111.0)
    pace.update(other)
    assert pace.time_left(other) == "", "another kind of work starts at zero"


def test_work_that_starts_again_has_a_pace_of_its_own() -> None:
    pace = Pace()
    for event in (Progress(1, 200, "steps", 0.0), Progress(200, 200, "steps", 500.0)):
        pace.update(event)
    again = Progress(1, 200, "steps", 501.0)
    pace.update(again)
    assert pace.time_left(again) == ""
    later = Progress(11, 200, "steps", 511.0)
    pace.update(later)
    assert pace.time_left(later) == ", 3 min 9 s left"


def test_plain_lines_are_rate_limited(tmp_path: Path) -> None:
    record = Store(tmp_path).publish(STEP, lambda out: {})
    lines: list[str] = []
    display = PlainDisplay(lines.append, seconds=1e6)
    display.started(STEP)
    for done in range(100):
        display.progress(STEP, Progress(done, 100, "steps", float(done)))
    display.finished(STEP, record)
    assert lines == ["[started]  corpus [everyday]", "[done]     corpus [everyday] (0 s)"]
    eager = PlainDisplay(lines.append, seconds=0.0)
    eager.progress(STEP, Progress(10, 100, "steps", 10.0))
    eager.progress(STEP, Progress(20, 100, "steps", 20.0))
    assert lines[-1] == "[running]  corpus [everyday]: step 20 of 100, 1 min 20 s left"


def test_a_warning_is_one_line() -> None:
    lines: list[str] = []
    PlainDisplay(lines.append).warned(STEP, Warned("a checkpoint is damaged", 0.0))
    assert lines == ["[warning]  corpus [everyday]: a checkpoint is damaged"]


def test_a_choice_is_shown_once_for_all_steps_that_made_it() -> None:
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    for line in ("it chose fp32", "it chose fp32", "it chose bf16"):
        display.noted(STEP, Noted(line))
    assert lines == [f"[note]     corpus [everyday]: it chose {name}" for name in ("fp32", "bf16")]


def test_a_failure_or_a_stop_is_one_line() -> None:
    lines: list[str] = []
    PlainDisplay(lines.append).failed(STEP, UserError("empty", where="a.txt", hint="fill it"))
    PlainDisplay(lines.append).failed(STEP, KeyboardInterrupt())
    assert lines == ["[failed]   corpus [everyday]: a.txt: empty", "[stopped]  corpus [everyday]"]


def test_bars_on_a_terminal_and_names_as_they_are(tmp_path: Path) -> None:
    record = Store(tmp_path).publish(STEP, lambda out: {})
    shown = io.StringIO()
    console = Terminal(file=shown, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    display = display_for(console)
    assert isinstance(display, RichDisplay)
    display.started(STEP)
    display.progress(STEP, Progress(50, 100, "steps", 1.0))
    display.finished(STEP, record)
    display.say("all [done]")
    display.close()
    assert "[done]     corpus [everyday] (0 s)" in shown.getvalue()
    assert "all [done]" in shown.getvalue()


def test_lines_elsewhere() -> None:
    shown = io.StringIO()
    display = display_for(Terminal(file=shown, width=20))
    assert isinstance(display, PlainDisplay)
    display.say("a line that is longer than [twenty] columns")
    assert shown.getvalue() == "a line that is longer than [twenty] columns\n"
