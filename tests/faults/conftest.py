"""How long recovery takes: measured by the tests here and printed at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# What was broken, in words, and the seconds until work went on.
RECOVERIES: list[tuple[str, float]] = []


@pytest.fixture
def recovered() -> Callable[[str, float], None]:
    """Takes down a recovery: what was broken, and the seconds it took."""
    return lambda what, seconds: RECOVERIES.append((what, seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RECOVERIES:
        terminalreporter.section("recovery")
    for what, seconds in RECOVERIES:
        terminalreporter.write_line(f"{seconds:7.2f} s  {what}")
