"""Commands that write many lines tell how far they are."""

from __future__ import annotations

import io

import pytest

from subgraft.orchestration.execution.progress import counting


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_now_and_then_where_there_is_no_terminal() -> None:
    shown = io.StringIO()
    with counting("generating", to=shown, seconds=0.0) as progress:
        for done in (32, 64, 96, 100):
            progress(done, 100, "sentences")
    first, second, third = shown.getvalue().splitlines()
    assert first == "generating: 32/100 sentences"
    assert second.startswith("generating: 64/100 sentences, 0 s left")
    assert third.startswith("generating: 96/100 sentences"), "the last is not reported, whose output says it"


def test_short_work_says_nothing() -> None:
    shown = io.StringIO()
    with counting("generating", to=shown) as progress:
        progress(1, 2, "sentences")
    assert shown.getvalue() == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = _Screen()
    with counting("generating [beta]", to=screen) as progress:
        progress(50, 100, "sentences")
    assert "generating [beta]" in screen.getvalue() and "50/100 sentences" in screen.getvalue()
